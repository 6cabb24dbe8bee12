// Percent-encoding as S3 signs it, and the address of a bucket.
#ifndef SKERRY_S3_URI_H_
#define SKERRY_S3_URI_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skerry/base/result.h"

namespace skerry {

// Everything but A-Z a-z 0-9 - . _ ~ as %XX with capital digits; '/' stays where it parts a path.
std::string UriEncode(std::string_view text, bool keep_slashes = false);
// The reverse; '+' is itself. kInvalid for a '%' without two hexadecimal digits.
Result<std::string> UriDecode(std::string_view text);

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

// "a=1&b=&c=x%2Fy", sorted by the encoded names, then values: the form that is signed is the form that is sent.
std::string CanonicalQuery(const QueryParameters& parameters);

}  // namespace skerry

#endif  // SKERRY_S3_URI_H_
