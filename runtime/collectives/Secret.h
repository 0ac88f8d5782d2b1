// SPDX-License-Identifier: Apache-2.0
//
// Proofs that a message is from someone who has the job's secret.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fcdp {

/// Returns unpredictable bytes. Throws std::runtime_error.
std::string randomBytes(size_t count);

/// Returns the HMAC (RFC 2104) with SHA-1 of the parts, in hexadecimal digits.
/// Each part is preceded by its length, so that no two lists of parts are the
/// same text.
std::string proofOf(const std::string &secret,
                    const std::vector<std::string> &parts);

/// The HMAC of a text as it is.
std::string hmacSha1(const std::string &secret, const std::string &text);

/// Compares in a time that does not depend on where the texts differ.
bool isSameProof(const std::string &one, const std::string &other);

} // namespace fcdp
