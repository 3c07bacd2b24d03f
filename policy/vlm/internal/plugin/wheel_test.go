//go:build !windows

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// fakePip is a shell script in place of pip: it answers to --version and
// "downloads" by copying every file of the shelf into the folder after --dest.
const fakePip = `#!/bin/sh
PATH=/usr/bin:/bin
echo "$0 $*" >> "$SHELF/../calls"
case "$*" in *--version) echo "pip 99"; exit 0;; esac
while [ $# -gt 0 ]; do
  [ "$1" = --dest ] && dest=$2
  [ "$1" = -r ] && cp "$2" "$SHELF/../requirements"
  shift
done
mkdir -p "$dest" && cp "$SHELF"/* "$dest"
`

// withPip makes scripts the only commands in PATH, and a shelf of wheels.
func withPip(t *testing.T, scripts map[string]string, shelf map[string][]byte) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, data := range shelf {
		write(t, filepath.Join(root, "shelf", name), data)
	}
	for name, text := range scripts {
		path := write(t, filepath.Join(root, "bin", name), []byte(text))
		require.NoError(t, os.Chmod(path, 0o755))
	}
	t.Setenv("PATH", filepath.Join(root, "bin"))
	t.Setenv("SHELF", filepath.Join(root, "shelf"))
	return root
}

// testWheel is a wheel whose plugin has another name, as in the second of cpuWheels.
func testWheel(t *testing.T) (wheel, string, []byte) {
	file := archive(t, map[string][]byte{
		"some_plugin/__init__.py":                             []byte("raise SystemExit"),
		"some_plugin/libpjrt.so":                              good("wheel"),
		"some_plugin-1.2.dist-info/METADATA":                  []byte("License: free"),
		"some_plugin-1.2.dist-info/RECORD":                    nil,
		"some_plugin-1.2.dist-info/LICENSE":                   []byte("free"),
		"some_plugin-1.2.dist-info/licenses/part/NOTICES.txt": []byte("of others"),
	})
	return wheel{"some-plugin", "1.2", digest(file), "libpjrt.so"}, "some_plugin-1.2-py3-none-any.whl", file
}

func TestWheelIsInstalledWithItsLicences(t *testing.T) {
	user := sandbox(t)
	w, name, file := testWheel(t)
	root := withPip(t, map[string]string{"python3": fakePip}, map[string][]byte{name: file})
	p, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(user, "pjrt_c_api_cpu_plugin.so"), p.Path)
	require.Equal(t, digest(good("wheel")), p.SHA256)
	require.Equal(t, "wheel some-plugin 1.2, SHA-256 "+w.sha256, p.Source)
	require.Len(t, names(t, user), 3, "no wheel, no Python")
	about := filepath.Join(user, "licenses", "some-plugin-1.2")
	require.Equal(t, []string{"LICENSE", "METADATA", "part"}, names(t, about))
	require.FileExists(t, filepath.Join(about, "part", "NOTICES.txt"))
	list, err := os.ReadFile(filepath.Join(root, "requirements"))
	require.NoError(t, err)
	require.Equal(t, "some-plugin==1.2 --hash=sha256:"+w.sha256+"\n", string(list), "pip refuses other files, too")
}

func TestWheelsThatAreNotThePinnedOneAreRefused(t *testing.T) {
	w, name, file := testWheel(t)
	other := archive(t, map[string][]byte{"some_plugin/libpjrt.so": good("evil")})
	unsafe := archive(t, map[string][]byte{"../../libpjrt.so": good("evil")})
	bare := archive(t, map[string][]byte{"README": nil})
	for title, c := range map[string]struct {
		shelf map[string][]byte
		sum   string
		says  string
	}{
		"wrong hash":     {map[string][]byte{name: other}, w.sha256, "must be " + w.sha256},
		"cut off":        {map[string][]byte{name: file[:len(file)/2]}, w.sha256, "not the pinned wheel"},
		"unsafe path":    {map[string][]byte{name: unsafe}, digest(unsafe), "unsafe path"},
		"not a zip":      {map[string][]byte{name: []byte("x")}, digest([]byte("x")), "not a valid zip"},
		"without plugin": {map[string][]byte{name: bare}, digest(bare), "no such file"},
		"another wheel":  {map[string][]byte{"else-1-py3-none-any.whl": file}, w.sha256, "pip downloaded 0 files"},
	} {
		t.Run(title, func(t *testing.T) {
			user := sandbox(t)
			withPip(t, map[string]string{"python3": fakePip}, c.shelf)
			w := w
			w.sha256 = c.sum
			_, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
			testkit.Error(t, err, ErrMissing, c.says)
			require.Empty(t, names(t, user))
			require.NoFileExists(t, filepath.Join(user, "..", "libpjrt.so"))
		})
	}
}

func TestFirstPipThatWorksIsUsed(t *testing.T) {
	const broken = "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n"
	w, name, file := testWheel(t)
	for want, scripts := range map[string]map[string]string{
		"python -m pip": {"python3": broken, "python": fakePip, "pip3": fakePip},
		"pip3":          {"python3": broken, "python": broken, "pip3": fakePip, "pip": fakePip},
		"pip":           {"pip": fakePip},
	} {
		t.Run(want, func(t *testing.T) {
			sandbox(t)
			root := withPip(t, scripts, map[string][]byte{name: file})
			_, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
			require.NoError(t, err)
			calls, err := os.ReadFile(filepath.Join(root, "calls"))
			require.NoError(t, err)
			require.Contains(t, string(calls), filepath.Join(root, "bin", want)+" download ")
		})
	}
	t.Run("none", func(t *testing.T) {
		sandbox(t)
		withPip(t, map[string]string{"python3": broken}, nil)
		_, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
		testkit.Error(t, err, ErrMissing, "no working pip", "No module named pip")

		withPip(t, nil, nil)
		_, err = newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
		require.ErrorContains(t, err, "no pip found")
	})
}

func TestFailureOfPipIsTold(t *testing.T) {
	sandbox(t)
	w, _, _ := testWheel(t)
	withPip(t, map[string]string{"pip": "#!/bin/sh\n[ $1 = --version ] && exit 0\necho 'ERROR: No matching distribution' >&2\nexit 1\n"}, nil)
	_, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
	require.ErrorContains(t, err, "No matching distribution")
}

func TestCancellingStopsPip(t *testing.T) {
	user := sandbox(t)
	w, _, _ := testWheel(t)
	root := withPip(t, map[string]string{
		"pip": "#!/bin/sh\n[ $1 = --version ] && exit 0\n/bin/mkfifo \"$SHELF\"\necho > \"$SHELF\"\n/bin/sleep 3600\n"}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends: the script writes, or the test fails without it
		for ctx.Err() == nil {
			if f, err := os.Open(filepath.Join(root, "shelf")); err == nil {
				f.Close()
				cancel()
			}
		}
	}()
	_, err := newTest(nil, source{"wheel", w.fetch}).ensure(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, names(t, user))
}

func TestPluginThatTheSystemCannotLoadIsPassedOver(t *testing.T) {
	sandbox(t)
	w, name, file := testWheel(t)
	withPip(t, map[string]string{"pip": fakePip,
		"ldd": "#!/bin/sh\necho '\tlibc.so.6 => /lib/libc.so.6'\necho '\tlibstdc++.so.6 => not found'\n"},
		map[string][]byte{name: file})
	_, err := newTest(nil, source{"wheel", w.fetch}).ensure(t.Context())
	testkit.Error(t, err, ErrMissing, "missing libraries or symbols on this system: libstdc++.so.6 => not found")
}

func TestBundleOfWheelsBecomesOneFolder(t *testing.T) {
	user := sandbox(t)
	first := archive(t, map[string][]byte{"jax_plugins/xla/xla_cuda_plugin.so": good("cuda"),
		"jax_plugins/xla/__init__.py": nil})
	second := archive(t, map[string][]byte{
		"nvidia/__init__.py": nil, "nvidia/cu13/bin/ptxas": []byte("#!"), "nvidia/cu13/lib/libx.so.13": []byte("x"),
		"nvidia_x-13.dist-info/licenses/License.txt": []byte("EULA"),
	})
	b := bundle{{"some-pjrt", "1", digest(first), "xla_cuda_plugin.so"}, {"nvidia-x", "13", digest(second), ""}}
	withPip(t, map[string]string{"pip": fakePip},
		map[string][]byte{"some_pjrt-1-py3-none-any.whl": first, "nvidia_x-13-py3-none-any.whl": second})
	s := newTest(nil, source{"wheels", b.fetch})
	s.kind = CUDA
	p, err := s.install(t.Context(), user)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(user, "nvidia", "pjrt_c_api_cuda_plugin.so"), p.Path)
	require.Equal(t, []string{"licenses", "nvidia"}, names(t, user))
	require.Equal(t, []string{"cu13", "cublas", "cuda_nvrtc", "pjrt_c_api_cuda_plugin.so",
		"pjrt_c_api_cuda_plugin.so.sha256"}, names(t, filepath.Join(user, "nvidia")))
	require.FileExists(t, filepath.Join(user, "nvidia", "cublas", "lib", "libx.so.13"))
	require.Equal(t, filepath.Join(user, "nvidia", "cu13"), CUDAData(p))
	info, err := os.Stat(filepath.Join(CUDAData(p), "bin", "ptxas"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	again, err := s.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, p, again)

	require.NoError(t, os.Remove(p.Path))
	_, err = s.install(t.Context(), user)
	require.ErrorContains(t, err, "exists and is not a plugin", "libraries of unknown origin are not mixed with new ones")
}

func TestPinsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range append(append([]wheel{}, cpuWheels...), cudaWheels...) {
		require.Regexp(t, `^[0-9a-f]{64}$`, w.sha256, w.name)
		require.Regexp(t, `^[0-9.]+$`, w.version, w.name)
		require.False(t, seen[w.name] || seen[w.sha256], w.name)
		seen[w.name], seen[w.sha256] = true, true
	}
	for _, w := range cpuWheels {
		require.NotEmpty(t, w.library)
	}
	for goos, n := range map[string]int{"linux/amd64": 3, "linux/arm64": 1, "darwin/arm64": 1, "windows/amd64": 1,
		"darwin/amd64": 0} {
		list, limit := sources(CPU, filepath.Dir(goos), filepath.Base(goos))
		require.Len(t, list, n, goos)
		require.Positive(t, limit)
	}
}
