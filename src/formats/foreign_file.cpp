#include "formats/foreign_file.h"

#include <strings.h>
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/compressed_file.h"

namespace inkling {

namespace {

struct ForeignKind {
  std::string_view endings;  // each with a space behind it
  std::string_view what;
  std::string_view remedy;  // "%" is the file
  Inside inside = Inside::bytes;
};

constexpr std::string_view nothing_inside = "leave it out";

constexpr std::array foreign_kinds = {
    ForeignKind{".csv .tsv ", "a table",
                "scripts/from-parquet % %.jsonl writes its rows as JSON lines, and data.jsonl_field says which column "
                "holds the text",
                Inside::characters},
    ForeignKind{".parquet .arrow .feather ", "a table of columns",
                "scripts/from-parquet % %.jsonl.zst writes its rows as JSON lines, and data.jsonl_field says which "
                "column holds the text"},
    ForeignKind{".html .htm .xhtml ", "an HTML page", "pandoc -f html -t plain % -o %.txt writes its text",
                Inside::characters},
    ForeignKind{".xml ", "XML", "write the texts between its tags into a text file, or as JSON lines",
                Inside::characters},
    ForeignKind{".docx .odt .rtf .epub ", "a formatted document", "pandoc -t plain % -o %.txt writes its text"},
    ForeignKind{".doc .ppt .pptx .odp ", "an office file",
                "libreoffice --headless --convert-to pdf % makes a PDF, and pdftotext writes the text of that"},
    ForeignKind{".xls .xlsx .ods ", "a spreadsheet",
                "libreoffice --headless --convert-to csv % makes a table, and scripts/from-parquet JSON lines of that"},
    ForeignKind{".pdf ", "a PDF", "pdftotext % %.txt writes its text"},
    ForeignKind{".ipynb ", "a notebook", "jupyter nbconvert --to markdown % writes its text", Inside::characters},
    ForeignKind{".warc ", "an archive of web pages", "write the texts of its pages as JSON lines"},
    ForeignKind{".tar .tgz .tzst .tbz2 .txz ", "an archive of files",
                "unpack it (tar -xf %) and name its folder or its files"},
    ForeignKind{".zip ", "an archive of files", "unpack it (unzip %) and name its folder or its files"},
    ForeignKind{".7z ", "an archive of files", "unpack it (7z x %) and name its folder or its files"},
    ForeignKind{".rar ", "an archive of files", "unpack it (unrar x %) and name its folder or its files"},
    ForeignKind{".bz2 ", "compressed by bzip2", "decompress it (bzip2 -dk %), or compress it with gzip or zstd"},
    ForeignKind{".xz .lzma ", "compressed by xz", "decompress it (xz -dk %), or compress it with gzip or zstd"},
    ForeignKind{".lz4 ", "compressed by lz4", "decompress it (lz4 -dk %), or compress it with gzip or zstd"},
    ForeignKind{"gzip ", "compressed by gzip, and its name does not say so", "rename it (mv % %.gz)"},
    ForeignKind{"zstd ", "compressed by zstd, and its name does not say so", "rename it (mv % %.zst)"},
    ForeignKind{".db .sqlite .sqlite3 ", "a database",
                "sqlite3 % \"select json_object('text', COLUMN) from TABLE\" > %.jsonl writes JSON lines"},
    ForeignKind{".safetensors .gguf .onnx .h5 .hdf5 ", "a file of a model's weights", "name the text"},
    ForeignKind{".npy .npz ", "an array of numbers", "name the text"},
    ForeignKind{".png .jpg .jpeg .gif .bmp .webp .tif .tiff .ico .heic .psd ", "a picture", nothing_inside,
                Inside::no_text},
    ForeignKind{".mp3 .wav .flac .ogg .opus .m4a .aac ", "sound", nothing_inside, Inside::no_text},
    ForeignKind{".mp4 .mkv .mov .avi .webm ", "a film", nothing_inside, Inside::no_text},
    ForeignKind{".ttf .otf .woff .woff2 ", "a font", nothing_inside, Inside::no_text},
    ForeignKind{".exe .dll .so .o .a .pyc .class ", "a compiled program", nothing_inside, Inside::no_text},
};

struct Sign {
  std::string_view bytes;
  std::string_view ending;  // of the kind
  std::size_t at = 0;
};

using namespace std::string_view_literals;  // for signs that hold zeros

constexpr std::array signs = {
    Sign{"%PDF-", ".pdf"},
    Sign{"{\\rtf", ".rtf"},
    Sign{"PAR1\x15", ".parquet"},
    Sign{"ARROW1\0"sv, ".arrow"},
    Sign{"PK\x03\x04", ".zip"},
    Sign{"\x1f\x8b\x08", "gzip"},
    Sign{"\x28\xb5\x2f\xfd", "zstd"},
    Sign{"\xfd\x37zXZ", ".xz"},
    Sign{"1AY&SY", ".bz2", 4},
    Sign{"7z\xbc\xaf\x27\x1c", ".7z"},
    Sign{"Rar!\x1a\x07", ".rar"},
    Sign{"ustar", ".tar", 257},
    Sign{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ".doc"},
    Sign{"SQLite format 3\0"sv, ".db"},
    Sign{"\x89HDF\r\n\x1a\n", ".h5"},
    Sign{"GGUF\x02\0\0"sv, ".gguf"},
    Sign{"GGUF\x03\0\0"sv, ".gguf"},
    Sign{"\x93NUMPY", ".npy"},
    Sign{"\x89PNG\r\n\x1a\n", ".png"},
    Sign{"\xff\xd8\xff", ".jpg"},
    Sign{"GIF87a", ".gif"},
    Sign{"GIF89a", ".gif"},
    Sign{"WEBPVP8", ".webp", 8},
    Sign{"WAVEfmt ", ".wav", 8},
    Sign{"OggS\0"sv, ".ogg"},
    Sign{"\177ELF", ".o"},
};

std::string with_file(std::string_view words, const fs::path& path) {
  std::string filled;
  for (const char c : words) c == '%' ? filled += shell_word(path.string()) : filled += c;
  return filled;
}

ForeignFile describe(const ForeignKind& kind, const fs::path& path) {
  // tar decompresses by itself.
  const bool inside = compression_of(path) != Compression::none && !kind.endings.starts_with(".tar ");
  const fs::path file = inside ? decompressed_name(path) : path;
  const std::string first = inside ? str("decompress it, and then: ") : "";
  return {std::string(kind.what), first + with_file(kind.remedy, file), kind.inside};
}

const ForeignKind* kind_with(std::string_view ending) {
  if (ending.empty()) return nullptr;
  const auto has_it = [&](const ForeignKind& kind) {
    return kind.endings.find(str(ending, " ")) != std::string_view::npos;
  };
  const auto* const found = std::find_if(foreign_kinds.begin(), foreign_kinds.end(), has_it);
  return found == foreign_kinds.end() ? nullptr : found;
}

// The name that iconv gives to the encoding; empty for text in another one. Without a byte order mark, what Latin
// letters look like tells: every second byte (of UTF-32, three of four) is zero.
std::string_view wide_encoding(std::string_view front) {
  if (front.starts_with("\xff\xfe\0\0"sv) || front.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (front.starts_with("\xff\xfe") || front.starts_with("\xfe\xff")) return "UTF-16";
  std::array<std::size_t, 4> zeros{};
  const std::size_t groups = front.size() / 4;
  for (std::size_t i = 0; i < 4 * groups; ++i) zeros[i % 4] += front[i] == '\0' ? 1 : 0;
  const auto most = [&](std::size_t place) { return groups > 0 && 4 * zeros[place] >= 3 * groups; };
  const auto none = [&](std::size_t place) { return zeros[place] == 0; };
  if (none(0) && most(1) && most(2) && most(3)) return "UTF-32LE";
  if (most(0) && most(1) && most(2) && none(3)) return "UTF-32BE";
  if (none(0) && most(1) && none(2) && most(3)) return "UTF-16LE";
  if (most(0) && none(1) && most(2) && none(3)) return "UTF-16BE";
  return "";
}

std::array<char, 4> front_of(const InputFile& file) {
  std::array<char, 4> front{};
  file.read_some(0, std::as_writable_bytes(std::span(front)));
  return front;
}

std::string remedy_for(const fs::path& path) {
  if (path.extension() == ".pkl" || path.extension() == ".pickle") {
    return str("if it is nanoGPT's vocabulary, scripts/from-nanogpt ", shell_word(path.string()),
               " FOLDER writes it as FOLDER/inkling_tokenizer.json, and runs nothing");
  }
  if (path.filename().string().starts_with("pytorch_model")) {
    return "if you trust it, open it in Python with transformers and save it again: "
           "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER, safe_serialization=True)";
  }
  if (path.filename().string().starts_with("consolidated")) {
    return "if it is a model as its makers have it, take the folder that transformers opens, with config.json and "
           "model.safetensors";
  }
  return str(
      "if it is a checkpoint of nanoGPT, scripts/from-nanogpt ", shell_word(path.string()),
      " META.pkl FOLDER writes it as FOLDER/config.json and model.safetensors (META.pkl is the vocabulary beside "
      "its train.bin; gpt2 in its place is GPT-2's), and runs nothing");
}

}  // namespace

std::optional<ForeignFile> wide_text(const fs::path& path, std::string_view front) {
  const std::string_view encoding = wide_encoding(front);
  if (encoding.empty()) return std::nullopt;
  const fs::path file = decompressed_name(path);
  fs::path converted = file;
  converted.replace_extension(str(".utf8", file.extension().string()));
  const std::string first = file == path ? "" : "decompress it, and then: ";
  return ForeignFile{str("text in ", encoding.substr(0, 6), ", not UTF-8"),
                     str(first, "iconv -f ", encoding, " -t UTF-8 ", shell_word(file.string()), " > ",
                         shell_word(converted.string()), " converts it"),
                     Inside::bytes};
}

std::optional<ForeignFile> foreign_by_name(const fs::path& path) {
  const ForeignKind* kind = kind_with(ending_of(decompressed_name(path)));
  return kind == nullptr ? std::nullopt : std::optional(describe(*kind, path));
}

bool is_web_page(std::string_view front) {
  if (front.starts_with(byte_order_mark)) front.remove_prefix(byte_order_mark.size());
  front.remove_prefix(std::min(front.find_first_not_of(" \t\r\n"), front.size()));
  const auto begins = [&](std::string_view tag) {
    return front.size() >= tag.size() && ::strncasecmp(front.data(), tag.data(), tag.size()) == 0;
  };
  return begins("<!doctype html") || begins("<html>") || begins("<html ");
}

bool is_pointer_of_git_lfs(std::string_view front) {
  return front.starts_with("version https://git-lfs.github.com/spec/");
}

std::optional<ForeignFile> pointer_of_git_lfs(std::string_view front) {
  if (!is_pointer_of_git_lfs(front)) return std::nullopt;
  return ForeignFile{"a pointer of Git LFS, not the file itself",
                     "git lfs install && git lfs pull, in its clone, fetches the file", Inside::characters};
}

std::optional<ForeignFile> foreign_by_front(const fs::path& path, std::string_view front) {
  if (auto pointer = pointer_of_git_lfs(front)) return pointer;
  if (is_web_page(front)) return describe(*kind_with(".html"), path);
  for (const Sign& sign : signs) {
    if (front.size() > sign.at && front.substr(sign.at).starts_with(sign.bytes)) {
      return describe(*kind_with(sign.ending), path);
    }
  }
  return std::nullopt;
}

bool is_named_pickle(const fs::path& path) {
  const std::string ending = ending_of(path);
  return ending == ".pkl" || ending == ".pickle" || ending == ".pt" || ending == ".pth" || ending == ".ckpt";
}

bool is_saved_by_torch(const InputFile& file) {
  const auto front = front_of(file);
  return std::string_view(front.data(), front.size()) == "PK\x03\x04";
}

bool is_pickle(const InputFile& file) {
  const auto front = front_of(file);
  return is_saved_by_torch(file) || (front[0] == '\x80' && front[1] >= 2 && front[1] <= 5);  // the protocol's version
}

void refuse_pickle(const fs::path& path) {
  throw Error::input(str(path.string(),
                         " is a Python pickle, which can run any program when it is opened, so it is not read; ",
                         remedy_for(path)));
}

void refuse_if_pickle(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  if (is_named_pickle(path) || is_pickle(InputFile(path))) refuse_pickle(path);
}

}  // namespace inkling
