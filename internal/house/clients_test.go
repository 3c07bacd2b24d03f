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

// ownClient matches what makes or changes a client of net/http: values of its type, its
// default client, a rule for redirects, and another name of the package.
var ownClient = regexp.MustCompile(
	`[^*]http\.Client\b|\bhttp\.(DefaultClient|Get|Head|Post|PostForm)\b|CheckRedirect|` +
		`(?m)^(\t|import )[\w.]+ "net/http"`,
)

// clientRule matches a client with its rule.
var clientRule = regexp.MustCompile(`origin\.Client\(origin\.(\w+)`)

// TestEveryHTTPClientHasARuleForRedirects: net/http's own rule sends credentials to
// subdomains and other ports, and bodies to any host. So only internal/origin makes clients,
// each with the rule that suits
// what it sends.
func TestEveryHTTPClientHasARuleForRedirects(t *testing.T) {
	maker := filepath.Join(root, "internal", "origin") + string(filepath.Separator)
	made, rules := false, map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		found := ownClient.FindString(string(raw))
		if strings.HasPrefix(path, maker) {
			made = made || found != ""
			return nil
		}
		require.Empty(t, found, "%s: use origin.Client", path)
		for _, rule := range clientRule.FindAllStringSubmatch(string(raw), -1) {
			rules[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), filepath.ToSlash(root)+"/")] += rule[1] + " "
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, made, "the pattern finds the clients of internal/origin")
	require.Equal(t, map[string]string{
		"env/remote": "None ", "env/remote/openenv": "None None ", "env/svg": "Stay ", "internal/hub": "KeepKeys ",
		"policy/chat": "None ", "policy/engine": "Stay ", "policy/vlm/internal/plugin": "KeepKeys ",
		"rollout/gateway": "Stay ", "train/track/mlflow": "Stay ",
	}, rules)
}
