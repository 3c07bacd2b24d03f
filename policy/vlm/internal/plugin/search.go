package plugin

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/go-xla/installer"

	"vagen/internal/regular"
)

// userDir is go-xla's folder of the user, into which plugins are installed.
func userDir() (string, error) {
	lib, err := installer.DefaultHomeLibPath()
	if err != nil {
		return "", fmt.Errorf("plugin: no user folder for libraries: %w", err)
	}
	return filepath.Join(lib, "go-xla"), nil
}

// searchDirs lists the folders in which go-xla v0.4.1 looks for plugins, in its
// order, then the user's folder if it is not among them: if a search path is set,
// go-xla would ignore plugins installed there.
func (s *setup) searchDirs() []string {
	var dirs []string
	if list, set := os.LookupEnv(SearchPath); set {
		dirs = filepath.SplitList(list)
	} else {
		dirs = s.defaultDirs()
	}
	if user, err := userDir(); err == nil {
		dirs = append(dirs, user, filepath.Join(user, "nvidia"))
	}
	var out []string
	for _, d := range dirs {
		if d == "" {
			continue
		}
		if abs, err := filepath.Abs(d); err == nil && !slices.Contains(out, abs) {
			out = append(out, abs)
		}
	}
	return out
}

func (s *setup) defaultDirs() []string {
	var dirs []string
	if user, err := userDir(); err == nil {
		dirs = append(dirs, user)
		switch s.goos {
		case "linux":
			dirs = append(dirs, filepath.Join(user, "nvidia"), filepath.Join(filepath.Dir(user), "gomlx", "pjrt"))
		case "darwin":
			dirs = append(dirs, filepath.Join(filepath.Dir(user), "GoMLX", "PJRT"))
		}
	}
	const system = "/usr/local/lib"
	switch s.goos {
	case "linux":
		dirs = append(dirs, system+"/go-xla", system+"/go-xla/nvidia", system+"/gomlx/pjrt")
		dirs = append(dirs, absoluteDirs("LD_LIBRARY_PATH")...)
		dirs = append(dirs, linkerDirs(s.ldConf, 0)...)
	case "darwin":
		dirs = append(dirs, system+"/go-xla", system+"/gomlx/pjrt")
		dirs = append(dirs, absoluteDirs("DYLD_LIBRARY_PATH")...)
		dirs = append(dirs, absoluteDirs("LD_LIBRARY_PATH")...)
	}
	return dirs
}

// absoluteDirs are the absolute folders of a list in the environment.
func absoluteDirs(env string) []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv(env)), func(d string) bool { return !filepath.IsAbs(d) })
}

// linkerDirs reads the folders of the dynamic linker's configuration. A file
// that cannot be read has none.
func linkerDirs(conf string, depth int) []string {
	const deepest = 8 // includes may be circular
	if depth > deepest {
		return nil
	}
	f, err := regular.Open(conf)
	if err != nil {
		return nil
	}
	defer f.Close()
	var dirs []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "include" && len(words) > 1:
			for _, pattern := range words[1:] {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(filepath.Dir(conf), pattern)
				}
				files, _ := filepath.Glob(pattern)
				for _, file := range files {
					dirs = append(dirs, linkerDirs(file, depth+1)...)
				}
			}
		default:
			dirs = append(dirs, strings.TrimSpace(line))
		}
	}
	return dirs
}

// search returns the first file with one of the names that go-xla knows. Broken links
// are ignored.
func search(dirs []string, kind Kind) (string, bool) {
	for _, dir := range dirs {
		for _, ext := range []string{".so", ".dylib", ".dll"} {
			for _, stem := range []string{"pjrt-plugin-%s", "pjrt_plugin_%s", "pjrt_c_api_%s_plugin"} {
				path := filepath.Join(dir, fmt.Sprintf(stem, kind)+ext)
				if _, err := os.Stat(path); err == nil {
					return path, true
				}
			}
		}
	}
	return "", false
}

// fileName is the name under which a plugin is installed. go-xla uses the extension
// .so on macOS, too.
func fileName(kind Kind, goos string) string {
	ext := ".so"
	if goos == "windows" {
		ext = ".dll"
	}
	return fmt.Sprintf("pjrt_c_api_%s_plugin%s", kind, ext)
}
