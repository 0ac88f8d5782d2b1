// SPDX-License-Identifier: Apache-2.0
//
// Closes copies of descriptors in forked children. A process that is forked
// while a session is open, such as a worker of a DataLoader, gets copies of the
// session's descriptors.
#pragma once

namespace fcdp {

/// Makes each child that is forked from now on close `fd` before the child goes
/// on. Otherwise a child that outlives its parent would keep the parent's
/// connections and locks. Thread-safe.
void closeInChildren(int fd);
/// Stops closing `fd` in children; call it before `fd` is closed in this
/// process. Returns false if `fd` has been closed already, because this process
/// is such a child.
bool forgetInChildren(int fd);

} // namespace fcdp
