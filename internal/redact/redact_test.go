package redact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsAreFoundByNameAndInURLs(t *testing.T) {
	in := map[string]any{
		"token": "s1", "x-api-key": "s2", "hub_token": "s3", "headers": map[string]any{"X-Own": "s4"}, "empty": "",
		"password": "",
		"urls":     []any{"http://user:s5@host:1/a", "https://s6@host/?b=c&api_key=s7&d=e; http://u:s@8@h"},
		"deep":     map[string]any{"secret": []any{"s9"}},
		"key_env":  "NAME", "max_tokens": uint64(5), "special_token_list": []any{"<x>"}, "name": "plain", "size": 3.0,
	}
	want := map[string]any{
		"token": Mark, "x-api-key": Mark, "hub_token": Mark, "headers": map[string]any{"X-Own": Mark}, "empty": "",
		"password": "",
		"urls": []any{"http://user:" + Mark + "@host:1/a", "https://" + Mark + "@host/?b=c&api_key=" + Mark +
			"&d=e; http://u:" + Mark + "@h"},
		"deep": map[string]any{"secret": []any{Mark}}, "key_env": "NAME", "max_tokens": uint64(5),
		"special_token_list": []any{"<x>"}, "name": "plain", "size": 3.0,
	}
	got := Value("config", in)
	require.Equal(t, want, got)
	require.Equal(t, "s1", in["token"], "the value itself is not changed")
	require.Equal(t, want, Value("config", got), "again")
	require.Equal(t, []string{"c.deep.secret", "c.headers.X-Own", "c.hub_token", "c.token", "c.urls", "c.x-api-key"},
		Marked("c", got))
	require.Empty(t, Marked("c", in))
	require.Equal(t, Mark, Value("token", "x"))
}
