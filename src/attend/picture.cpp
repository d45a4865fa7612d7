#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include "attend/attended_text.h"
#include "base/strings.h"

namespace inkling {
namespace {

// Sizes in pixels.
constexpr double row_height = 22, font_size = 15, margin = 16, top = 74, lines_width = 240, number_width = 40;
constexpr double smallest_weight = 0.01;
constexpr std::size_t most_characters = 32;  // of a token; a longer one is cut

std::string number(double value) { return format_shortest(std::round(value * 100) / 100); }

// Whether nobody would see the character, or it turns the direction of writing, or XML forbids it.
bool is_unseen(char32_t sign) {
  return sign < 0x20 || (sign >= 0x7f && sign <= 0xa0) || sign == 0xad || (sign >= 0x2000 && sign <= 0x200f) ||
         (sign >= 0x2028 && sign <= 0x202f) || (sign >= 0x205f && sign <= 0x206f) || sign == 0x3000 || sign == 0xfeff ||
         (sign & 0xfffe) == 0xfffe || sign >= 0xe0000;
}

// One character as it is drawn: visible, and as an entity where XML gives it a meaning.
std::string drawn_character(char32_t sign) {
  switch (sign) {
    case ' ':
      return "\u00b7";
    case '\n':
      return "\u23ce";
    case '\t':
      return "\u21e5";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    default:
      break;
  }
  if (is_unseen(sign)) return "U+" + hexadecimal(sign, 4, Letters::upper_case);
  std::string drawn;
  append_utf8(drawn, sign);
  return drawn;
}

// A text as it is drawn, at most so many characters of it.
std::string drawn_text(const std::string& text, std::size_t most = most_characters) {
  if (text.empty()) return "(no text)";
  const std::string valid = find_invalid_utf8(text) ? quote(text) : text;  // a folder's name may be anything
  std::string drawn;
  for (std::size_t at = 0, read = 0; at < valid.size(); ++read) {
    if (read == most) return drawn + "\u2026";
    const char32_t sign = decode_utf8(valid, at);
    if (sign == 0x200d && !drawn.empty())  // joins what stands on both sides, as in an emoji of several people
      append_utf8(drawn, sign);
    else
      drawn += drawn_character(sign);
  }
  return drawn;
}

// How wide a text is at most in a usual font, in pixels. Characters from U+1100 on are taken for twice as wide.
double text_width(std::string_view text) {
  double letters = 0;
  for (std::size_t at = 0; at < text.size();) letters += decode_utf8(text, at) < 0x1100 ? 0.62 : 1.05;
  return letters * font_size;
}

struct Row {
  std::string text;
  std::size_t most;  // the token that it looks at most
};

struct Layout {
  std::string title;
  std::vector<Row> rows;
  double left, right, width, height;  // lines run from left to right
  double middle(std::size_t row) const { return top + (static_cast<double>(row) + 0.5) * row_height; }
};

Layout lay_out(const AttendedText& text, HeadChoice shown) {
  const AttendedHead& head = text.layers.at(shown.layer).heads.at(shown.head);
  Layout layout{};
  layout.title = str("Layer ", shown.layer, ", head ", shown.head, " of ", drawn_text(text.model, 60));
  const std::size_t tokens = text.tokens.size();
  double widest = 130;  // room for the headings
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto begin = head.weights.begin() + static_cast<std::ptrdiff_t>(i * tokens);
    const auto most = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(tokens)) - begin;
    layout.rows.push_back({drawn_text(text.tokens[i].text), static_cast<std::size_t>(most)});
    widest = std::max(widest, text_width(layout.rows[i].text));
  }
  layout.left = margin + widest + number_width + 8;
  layout.right = layout.left + lines_width;
  layout.width = margin + std::max(layout.right + 6 + widest, margin + text_width(layout.title));
  layout.height = top + static_cast<double>(tokens) * row_height + margin;
  return layout;
}

std::string text_at(double x, double y, std::string_view attributes, std::string_view text) {
  return str("<text x=\"", number(x), "\" y=\"", number(y), "\" ", attributes, ">", text, "</text>\n");
}

std::string describe(const AttendedText& text, const AttendedHead& head, const Layout& layout) {
  std::string description = "The tokens and what each of them looks at most:";
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    const std::size_t most = layout.rows[i].most;
    description += str(i == 0 ? " " : "; ", layout.rows[i].text, " at ", layout.rows[most].text, " ",
                       format_fixed(head.weights[i * text.tokens.size() + most], 2));
  }
  return description + ".";
}

std::string draw_lines(const AttendedHead& head, const Layout& layout) {
  std::string lines = "<g class=\"line\" fill=\"none\" stroke=\"#0b62c4\">\n";
  const std::size_t tokens = layout.rows.size();
  const std::string bend1 = number(layout.left + lines_width * 0.45), bend2 = number(layout.right - lines_width * 0.45);
  for (std::size_t i = 0; i < tokens; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double weight = head.weights[i * tokens + j];
      if (!(weight >= smallest_weight)) continue;
      const std::string from = number(layout.middle(i)), to = number(layout.middle(j));
      lines += str("<path d=\"M", number(layout.left), " ", from, "C", bend1, " ", from, " ", bend2, " ", to, " ",
                   number(layout.right), " ", to, "\" stroke-opacity=\"", number(weight), "\" stroke-width=\"",
                   number(0.75 + 3.25 * weight), "\"/>\n");
    }
  }
  return lines + "</g>\n";
}

std::string draw_tokens(const AttendedHead& head, const Layout& layout) {
  std::string drawn;
  const std::size_t tokens = layout.rows.size();
  for (std::size_t i = 0; i < tokens; ++i) {
    const Row& row = layout.rows[i];
    const double baseline = layout.middle(i) + font_size * 0.35;
    drawn += text_at(layout.left - number_width - 8, baseline, "text-anchor=\"end\"", row.text);
    drawn += text_at(layout.left - 6, baseline, "class=\"soft\" fill=\"#545c66\" font-size=\"12\" text-anchor=\"end\"",
                     format_fixed(head.weights[i * tokens + row.most], 2));
    drawn += text_at(layout.right + 6, baseline, "", row.text);
  }
  return drawn;
}

}  // namespace

std::string head_picture(const AttendedText& text, HeadChoice shown) {
  const AttendedHead& head = text.layers.at(shown.layer).heads.at(shown.head);
  const Layout layout = lay_out(text, shown);
  const std::string heading = "class=\"soft\" fill=\"#545c66\" font-size=\"12\"";
  return str(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" width=\"",
      number(layout.width), "\" height=\"", number(layout.height), "\" viewBox=\"0 0 ", number(layout.width), " ",
      number(layout.height), "\" font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" ",
      "font-size=\"", number(font_size), "\">\n<title id=\"title\">", layout.title, "</title>\n<desc id=\"desc\">",
      describe(text, head, layout), "</desc>\n",
      "<style>@media (prefers-color-scheme: dark) {.paper {fill: #13161a} text {fill: #e9ecef} .soft {fill: #a8b0ba} ",
      ".line {stroke: #6cb2ff}}</style>\n", "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      text_at(margin, 28, "font-weight=\"bold\"", layout.title),
      text_at(layout.left - number_width - 16, 60, heading + " text-anchor=\"end\"", "who looks (query)"),
      text_at(layout.left - 6, 60, heading + " text-anchor=\"end\"", "weight"),
      text_at(layout.right + 6, 60, heading, "who is looked at (key)"), draw_lines(head, layout),
      draw_tokens(head, layout), "</svg>\n");
}

}  // namespace inkling
