// SPDX-License-Identifier: Apache-2.0
//
// Operations on files that fail, in a program that links FaultyFiles.cpp: it
// replaces the functions of libc that change files. Used by one thread.
#pragma once

namespace fcdp::test {

/// The part of unsynchronized data that a machine loses if it stops without a
/// warning.
enum class Loss {
  Nothing,
  Contents,
  /// The last write to each file is on the disk, and those before it are not.
  EarlierContents,
  /// Names of files and folders: new ones are gone, and renamed ones have
  /// their old names.
  Names,
  All
};

struct FilesFault {
  enum Kind { Error, Kill, KillInTheMiddleOfAWrite };

  /// The operation that fails, counted from 1; 0 for none.
  int operation = 0;
  Kind kind = Error;
  /// The value of errno after an error.
  int error = 0;
  /// The data that is lost when the process is killed, or calls `losePower`.
  Loss loss = Loss::Nothing;
};

/// Counts operations from here on.
void beginFaults(const FilesFault &fault);
/// Returns the number of operations since beginFaults.
int numFileOperations();
/// Takes back what was not synchronized since beginFaults.
void losePower();

} // namespace fcdp::test
