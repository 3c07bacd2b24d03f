package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	clientValue   = regexp.MustCompile(`http\.Client\{[^}]*\}`)
	defaultClient = regexp.MustCompile(`http\.(DefaultClient|Get|Head|Post|PostForm)\b`)
)

// TestEveryHTTPClientHasARuleForRedirects: net/http's own rule sends credentials to
// subdomains and other ports, and bodies to any host. So each client of the library is
// built with a rule of its own, and the default client is not used.
func TestEveryHTTPClientHasARuleForRedirects(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, defaultClient.FindString(string(raw)), path)
		for _, c := range clientValue.FindAllString(string(raw), -1) {
			found++
			require.Contains(t, c, "CheckRedirect:", path)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, found)
}
