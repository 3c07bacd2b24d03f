package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestFindTakesTheFirstFolderOfTheSearchPath(t *testing.T) {
	user := sandbox(t)
	first, second := t.TempDir(), t.TempDir()
	t.Setenv(SearchPath, first+string(os.PathListSeparator)+string(os.PathListSeparator)+second)
	s := newTest(nil)

	want := write(t, filepath.Join(user, "pjrt_c_api_cpu_plugin.so"), good("user"))
	p, err := s.find(t.Context())
	require.NoError(t, err, "the user's folder counts even when a search path is set")
	require.Equal(t, want, p.Path)

	for _, dir := range []string{second, first} {
		want := write(t, filepath.Join(dir, "pjrt_c_api_cpu_plugin.so"), good("path"))
		p, err := s.find(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, p.Path)
	}
	want = write(t, filepath.Join(first, "pjrt-plugin-cpu.so"), good("other name"))
	p, err = s.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, p.Path, "go-xla asks for this name first")
}

func TestFindIgnoresOtherKindsAndLinksToNowhere(t *testing.T) {
	sandbox(t)
	dir := os.Getenv(SearchPath)
	write(t, filepath.Join(dir, "pjrt_c_api_cuda_plugin.so"), good("cuda"))
	write(t, filepath.Join(dir, "pjrt_c_api_cpu_v1_plugin.so"), good("versioned"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "gone.so"), filepath.Join(dir, "pjrt_c_api_cpu_plugin.so")))
	_, err := newTest(nil).find(t.Context())
	testkit.Error(t, err, ErrMissing, dir)
}

func TestDefaultFoldersAreThoseOfGoXLA(t *testing.T) {
	user := sandbox(t)
	unset(t, SearchPath)
	conf, linked, deeper := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", "relative:/from/env::")
	write(t, filepath.Join(conf, "ld.so.conf"), []byte("# comment\ninclude conf.d/*.conf\n"+linked+"  # here\n"))
	write(t, filepath.Join(conf, "conf.d", "a.conf"), []byte(deeper+"\ninclude ../ld.so.conf\n")) // a circle
	s := newTest(nil)
	s.ldConf = filepath.Join(conf, "ld.so.conf")
	home := filepath.Dir(user)
	require.Equal(t, []string{
		user, filepath.Join(user, "nvidia"), filepath.Join(home, "gomlx", "pjrt"),
		"/usr/local/lib/go-xla", "/usr/local/lib/go-xla/nvidia", "/usr/local/lib/gomlx/pjrt",
		"/from/env", deeper, linked,
	}, s.searchDirs())

	require.Less(t, len(linkerDirs(s.ldConf, 0)), 50, "the circle is left early")
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range open {
		file, _ := os.Readlink(link)
		require.False(t, strings.HasPrefix(file, conf), "%s is still open", file)
	}

	want := write(t, filepath.Join(deeper, "pjrt_c_api_cpu_plugin.so"), good("linker"))
	path, ok := search(s.searchDirs()[6:], CPU)
	require.True(t, ok)
	require.Equal(t, want, path)
}
