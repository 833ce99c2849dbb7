// The files that a policy's process sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin::run {

// A descriptor that FileView::Enter() opens: what is written there is the number of the last
// process of this process's namespace. Needs CAP_CHECKPOINT_RESTORE.
inline constexpr int kProcessNumbers = 4;

// A file system that is read only and has what was shown, at the places where it lies outside.
class FileView {
 public:
  // A file or folder, and where its links lead to. Nothing for one that is missing. A folder that
  // others keep private things in is not shown: the home directory and those above it, and those
  // that everybody may write to.
  void Show(const std::string& path);
  // All that colons separate.
  void ShowList(std::string_view paths);
  // The programs and libraries of this machine, and the files that this process has loaded.
  void ShowSystem();
  // A file and the modules beside it; the file alone in a folder that Show() does not show. Pipes
  // of the folder that have a name lead nowhere.
  void ShowWithFolder(const std::string& path);

  // Fills the mount namespace of this process, which is its own, with the view alone. Null, or the
  // call that failed; the file system is then as before. The current folder is the root.
  const char* Enter() const;

 private:
  struct Bind {
    std::string from;  // without links
    std::string to;
    bool is_folder = false;
    bool overlays = false;
  };

  void Add(const std::string& path, bool overlays);
  [[nodiscard]] bool Holds(const std::string& place) const;
  [[nodiscard]] const char* Fill() const;
  static const char* Mount(const Bind& bind, const std::string& source, const std::string& place);

  std::vector<Bind> binds_;  // those of folders above others come first
};

}  // namespace twin::run
