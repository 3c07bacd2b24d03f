package house_test

import (
	"maps"
	"path"
	"regexp"
	"slices"
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
// each with the rule that suits what it sends.
func TestEveryHTTPClientHasARuleForRedirects(t *testing.T) {
	made, rules := false, map[string]string{}
	files := sources(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		found := ownClient.FindString(files[name])
		if strings.HasPrefix(name, "internal/origin/") {
			made = made || found != ""
			continue
		}
		require.Empty(t, found, "%s: use origin.Client", name)
		for _, rule := range clientRule.FindAllStringSubmatch(files[name], -1) {
			rules[path.Dir(name)] += rule[1] + " "
		}
	}
	require.True(t, made, "the pattern finds the clients of internal/origin")
	require.Equal(t, map[string]string{
		"env/remote": "None ", "env/remote/openenv": "None None ", "env/svg": "Stay ", "internal/hub": "KeepKeys ",
		"policy/chat": "None ", "policy/engine": "Stay ", "policy/vlm/internal/plugin": "KeepKeys ",
		"rollout/gateway": "Stay ", "train/track/mlflow": "Stay ",
	}, rules)
}
