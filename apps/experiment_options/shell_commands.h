// The simple commands of a shell's command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin::apps {

// The words of each command of `line`, with quotes and backslashes resolved as a POSIX shell does
// (Shell Command Language, sections 2.2 and 2.3). Lines that end with a backslash continue. `;`,
// `&`, `|` and newlines end a command; redirections and comments are left out; `$` is an ordinary
// character. Commands without words are left out. Throws InputError (usage) at `where` for a quote
// that is not closed.
std::vector<std::vector<std::string>> ShellCommands(const std::string& where,
                                                    std::string_view line);

}  // namespace twin::apps
