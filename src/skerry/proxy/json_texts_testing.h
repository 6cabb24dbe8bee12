// Valid JSON texts of every form, for property tests.
#ifndef SKERRY_PROXY_JSON_TEXTS_TESTING_H_
#define SKERRY_PROXY_JSON_TEXTS_TESTING_H_

#include <iterator>
#include <random>
#include <string>

namespace skerry {

// Not thread-safe. The same seed makes the same texts.
class JsonTexts {
 public:
  explicit JsonTexts(uint64_t seed) : random_(seed) {}

  // With white space around it.
  std::string Object(int depth = 3) {
    std::string text = Space() + "{" + Space();
    const size_t members = Below(5);
    for (size_t i = 0; i < members; ++i) {
      if (i > 0) text += "," + Space();
      text += Name() + Space() + ":" + Space() + Value(depth) + Space();
    }
    return text + "}" + Space();
  }

  std::string Value(int depth) {
    switch (Below(depth > 0 ? 5 : 3)) {
      case 0: return String();
      case 1: return OneOf({"0", "-0.0", "12", "1e5", "-3.25E-2", "18446744073709551615", "123456789012345678901"});
      case 2: return OneOf({"true", "false", "null", "[]", "{}", "\"\""});
      case 3: return Object(depth - 1);
      default: return Array(depth - 1);
    }
  }

  size_t Below(size_t bound) { return random_() % bound; }

 private:
  std::string Array(int depth) {
    std::string text = "[" + Space();
    const size_t elements = Below(4);
    for (size_t i = 0; i < elements; ++i) text += (i > 0 ? "," : "") + Space() + Value(depth) + Space();
    return text + "]";
  }
  // Few, so that some are repeated; the same one in several spellings.
  std::string Name() {
    return OneOf({R"("a")", R"("\u0061")", R"("weight_version")", R"("weight\u005fversion")", R"("cache_salt")",
                  R"("")", R"("\"")", R"("a\\")", R"("\ud83d\udc0b")", R"("\u00e9\/\b\f\n\r\t")", "\"\xC3\xA9\"",
                  R"("{}[],:")"});
  }
  std::string String() {
    std::string text = "\"";
    const size_t parts = Below(6);
    for (size_t i = 0; i < parts; ++i) {
      text += OneOf({R"(\")", R"(\\)", R"(\\\")", "}", "{", "[", "]", ",", ":", "a", "some words", R"(\u0000)",
                     "\xC3\xA9", R"(\ud83d\udc0b)", "\xF0\x9F\x90\x8B"});
    }
    return text + "\"";
  }
  std::string Space() { return OneOf({"", "", "", " ", "\n", "\t", "\r\n  "}); }
  std::string OneOf(std::initializer_list<const char*> texts) { return *std::next(texts.begin(), Below(texts.size())); }

  std::mt19937_64 random_;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_JSON_TEXTS_TESTING_H_
