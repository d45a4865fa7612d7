// Which LibTorch an installed program takes, and what it says where there is none.
#include "library/torch_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr const char* names[] = {"INKLING_TORCH", "INKLING_CACHE", "XDG_CACHE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX",
                                 "PATH",          "HOME"};

// A machine in a folder, with nothing on it at first.
class TorchFolder : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : names) {
      const char* const value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
    set("HOME", machine / "home");
  }
  void TearDown() override {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      before_[i] ? ::setenv(names[i], before_[i]->c_str(), 1) : ::unsetenv(names[i]);
    }
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  // Puts a LibTorch there as pip does, and returns its folder.
  std::filesystem::path install(const std::string& packages, const std::string& version = "2.11.0+cu130") {
    machine.write(packages + "/torch/lib/libtorch_cpu.so", "");
    machine.write(packages + "/torch/version.py",
                  str("from typing import Optional\n\n__version__ = '", version, "'\n"));
    return machine / (packages + "/torch");
  }

  std::string python(const std::string& path) {
    const std::string file = machine.write(path, "");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return std::filesystem::path(file).parent_path().string();
  }

  std::filesystem::path found() { return find_torch("2.11.0", machine.path()).folder; }

  std::string refusal() {
    const auto error = error_of([&] { require_torch("inkling-train", "2.11.0", machine.path()); });
    EXPECT_TRUE(error && error->kind() == ErrorKind::environment);
    return error ? error->message() : "";
  }

  TemporaryFolder machine;

 private:
  std::vector<std::optional<std::string>> before_;
};

TEST_F(TorchFolder, IsFoundInEveryPlaceOfPip) {
  for (const std::string place :
       {"home/.local/lib/python3.11/site-packages", "usr/local/lib/python3.12/dist-packages",
        "usr/lib/python3/dist-packages", "home/.cache/inkling/torch/lib/python3.10/site-packages",
        "home/.cache/inkling/0a1b-python3.13/lib/python3.13/site-packages"}) {
    const auto folder = install(place);
    EXPECT_EQ(found(), folder);
    std::filesystem::remove_all(folder);
  }
  EXPECT_EQ(found(), "");
}

TEST_F(TorchFolder, IsTakenFromTheActiveEnvironmentFirst) {
  install("usr/local/lib/python3.11/dist-packages");
  install("home/.local/lib/python3.11/site-packages");
  const auto on_path = install("pythons/lib/python3.11/site-packages");
  set("PATH", str("relative:", machine.path().string(), ":", python("pythons/bin/python3")));
  EXPECT_EQ(found(), on_path);
  const auto active = install("venv/lib/python3.11/site-packages");
  set("VIRTUAL_ENV", machine / "venv");
  EXPECT_EQ(found(), active);
}

TEST_F(TorchFolder, IsFoundBehindALinkToPythonAndBehindPyenv) {
  const auto linked = install("pythons/lib/python3.11/site-packages");
  python("pythons/bin/python3");
  std::filesystem::create_directories(machine / "links");
  std::filesystem::create_symlink(machine / "pythons/bin/python3", machine / "links/python3");
  set("PATH", machine / "links");
  EXPECT_EQ(found(), linked);
  set("PATH", python(".pyenv/shims/python3"));
  const auto managed = install(".pyenv/versions/3.12.1/lib/python3.12/site-packages");
  EXPECT_EQ(found(), managed);
}

TEST_F(TorchFolder, OfAnotherVersionIsPassedOverAndNamed) {
  install("home/.local/lib/python3.11/site-packages", "2.11.1");
  install("usr/lib/python3/dist-packages", "12.11.0");
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, "python3.11/site-packages/torch (2.11.1), "));
  EXPECT_TRUE(contains(message, "dist-packages/torch (12.11.0)"));
  const auto right = install("usr/local/lib/python3.11/dist-packages", "2.11.0+cpu");
  EXPECT_EQ(found(), right);
}

TEST_F(TorchFolder, ThatIsNamedIsTheOnlyOneLookedAt) {
  install("home/.local/lib/python3.11/site-packages");
  const auto named = install("elsewhere", "2.11.0");
  set("INKLING_TORCH", named);
  EXPECT_EQ(found(), named);
  set("INKLING_TORCH", machine / "elsewhere");
  EXPECT_EQ(found(), named);
  set("INKLING_TORCH", machine / "home");
  EXPECT_TRUE(contains(refusal(), "which holds no lib/libtorch_cpu.so"));
  set("INKLING_TORCH", install("old", "2.9.0"));
  EXPECT_TRUE(contains(refusal(), "its LibTorch is 2.9.0, not 2.11.0"));
}

TEST_F(TorchFolder, MayBeAnUnpackedLibTorch) {
  machine.write("libtorch/lib/libtorch_cpu.so", "");
  machine.write("libtorch/build-version", "2.11.0+cpu\n");
  set("INKLING_TORCH", machine / "libtorch");
  EXPECT_EQ(found(), machine / "libtorch");
}

TEST_F(TorchFolder, ThatIsMissingIsMendedByTheCommandInTheMessage) {
  const std::string message = refusal(), venv = (machine / "home/.cache/inkling/torch").string();
  EXPECT_TRUE(contains(message, "inkling-train needs LibTorch 2.11.0"));
  EXPECT_TRUE(contains(message, str("python3 -m venv ", venv, " && ", venv, "/bin/pip install torch==2.11.0")));
  install("home/.cache/inkling/torch/lib/python3.11/site-packages");  // what that command does
  EXPECT_NE(found(), "");
}

TEST_F(TorchFolder, IsFoundBelowLib64) {
  const auto there = install("usr/lib64/python3.12/site-packages");
  EXPECT_EQ(found(), there);
}

TEST_F(TorchFolder, ThatIsMissingIsMendedWhereTheNameOfTheCacheHasSpaces) {
  set("INKLING_CACHE", "/my cache");
  EXPECT_TRUE(
      contains(refusal(), "python3 -m venv '/my cache/torch' && '/my cache/torch/bin/pip' install torch==2.11.0"));
}

TEST_F(TorchFolder, IsLookedForWithoutHomeAndWhereFoldersCannotBeRead) {
  ::unsetenv("HOME");
  machine.write("usr/lib/python3.11", "a file");
  machine.write("usr/local/lib/python3.11/dist-packages/torch/lib", "a file");
  set("PATH", "::/nowhere/bin:.");
  EXPECT_TRUE(contains(refusal(), "torch==2.11.0"));
}

}  // namespace
}  // namespace inkling
