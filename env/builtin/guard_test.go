package builtin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/testkit"
	"vagen/reward/judge"
)

// reaching are names of options that are expected to access the network or files.
var reaching = regexp.MustCompile(`url|addr|host|endpoint|dir$|folder|file|path|(^|_)(token|key|secret|password)s?$`)

// nest writes an option with dots in its name as nested mappings.
func nest(name string, value any) map[string]any {
	outer, inner, below := strings.Cut(name, ".")
	if below {
		value = nest(inner, value)
	}
	return map[string]any{outer: value}
}

func TestEveryOptionDeclaresWhatItReaches(t *testing.T) {
	kept := map[string]bool{}
	for _, k := range Kinds() {
		kinds := k.OptionKinds()
		require.NotEmpty(t, kinds, k.Name)
		for name, kind := range kinds {
			require.NotEmpty(t, kind, "%s: the option %s declares no kind", k.Name, name)
			if kind != env.KindNumber && kind != env.KindText {
				kept[name] = true
			} else if kind == env.KindText {
				require.NotRegexp(t, reaching, name, k.Name)
			}
		}
	}
	for _, name := range []string{"base_url", "base_urls", "data_dir", "dino_url", "dreamsim_url",
		"state_reward.judge.cache", "state_reward.judge.key_env",
		"state_reward.judge_base_url", "state_reward.judge_model", "task_dir", "token", "url_file", "video_record_dir"} {
		require.True(t, kept[name], name)
	}
}

func TestClientsChooseNoAddressPathOrSecret(t *testing.T) {
	for _, k := range Kinds() {
		g := env.Guard{Kinds: k.OptionKinds()}
		for name, kind := range g.Kinds {
			_, err := g.Merge(nest(name, "x"))
			if kind == env.KindNumber || kind == env.KindText {
				require.NoError(t, err, "%s: %s", k.Name, name)
				continue
			}
			for _, value := range []any{"x", []any{"x"}, map[string]any{"x": "y"}, 7} {
				_, err := g.Merge(nest(name, value))
				require.ErrorIs(t, err, env.ErrRefused, "%s: %s", k.Name, name)
				testkit.Error(t, err, env.ErrOption, name)
			}
			_, err = g.Merge(nest(name, ""))
			require.NoError(t, err, "an empty value has no effect")
			g.Allow = []string{name}
			got, err := g.Merge(nest(name, "x"))
			require.NoError(t, err)
			require.Equal(t, nest(name, "x"), got)
			g.Allow = nil
			g.Fixed = nest(name, "operator")
			got, err = g.Merge(nest(name, ""))
			require.NoError(t, err)
			require.Equal(t, g.Fixed, got)
			_, err = g.Merge(nest(name, "x"))
			require.ErrorIs(t, err, env.ErrRefused)
			_, err = g.Merge(nest(name, "operator"))
			require.NoError(t, err)
			g.Fixed = nil
		}
		if g.Complete = k.Defaults != nil; g.Complete {
			g.Fixed = envtest.Options("given: 1")
			_, err := g.Merge(envtest.Options("undeclared: 1, given: 2"))
			testkit.Error(t, err, env.ErrUnknown, `option "undeclared": bad option: unknown name`,
				`option "given": bad option: only the operator`)
			_, err = g.Merge(envtest.Options("undeclared: 1"))
			require.ErrorIs(t, err, env.ErrOption)
			require.NotErrorIs(t, err, env.ErrRefused, k.Name)
			g.Complete, g.Fixed = false, nil
		}
		for _, name := range []string{"undeclared", "undeclared.below", judge.Key + ".undeclared"} {
			_, err := g.Merge(nest(name, "x"))
			require.ErrorIs(t, err, env.ErrRefused, "%s: %s", k.Name, name)
		}
	}
}

func TestClientsThatChooseTheAddressGetNoSecretOfTheOperator(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name != "remote" {
			continue
		}
		g := env.Guard{Kinds: k.OptionKinds(), Allow: []string{"base_urls"},
			Fixed: envtest.Options("base_urls: http://ours, token: secret")}
		got, err := g.Merge(envtest.Options("timeout: 3"))
		require.NoError(t, err)
		require.Equal(t, envtest.Options("base_urls: http://ours, token: secret, timeout: 3"), got)
		got, err = g.Merge(envtest.Options("base_urls: http://theirs"))
		require.NoError(t, err)
		require.Equal(t, envtest.Options("base_urls: http://theirs"), got)
	}
}

// A client that may choose the judge's address does not get the operator's key sent there.
func TestAKeyIsNotSentToAJudgeThatAClientChooses(t *testing.T) {
	for _, k := range Kinds() {
		if !k.Claims {
			continue
		}
		ours := envtest.Options("judge_base_url: http://ours/v1, judge: {key_env: OUR_KEY, retries: 1}")
		g := env.Guard{Kinds: k.OptionKinds(), Allow: []string{"state_reward.judge_base_url"},
			Fixed: map[string]any{judge.Key: ours}}
		for given, want := range map[string]string{
			"judge: {retries: 2}": "judge: {retries: 2}", "": "judge: {retries: 1}",
		} {
			const theirs = "judge_base_url: http://theirs/v1, "
			got, err := g.Merge(map[string]any{judge.Key: envtest.Options(theirs + given)})
			require.NoError(t, err)
			require.Equal(t, map[string]any{judge.Key: envtest.Options(theirs + want)}, got)
		}
		require.Equal(t, "OUR_KEY", ours["judge"].(map[string]any)["key_env"], "the operator's options stay as they are")
		_, err := g.Merge(envtest.Options("state_reward: {judge: {key_env: HOME}}"))
		require.ErrorIs(t, err, env.ErrRefused)
	}
}

// In both protocols a client that sets the address of a judge gets status 403, one that names
// an option that does not exist status 400, and no judge is called.
func TestServedEnvironmentsDialOnlyWhereTheOperatorSays(t *testing.T) {
	var dialled []string
	all := RegistryWith(func(b *judge.StateReward) (judge.Completer, error) {
		dialled = append(dialled, b.JudgeURL)
		return func(context.Context, []string) ([]string, []error, error) { return nil, nil, nil }, nil
	})
	var kinds map[string]env.OptionKind
	for _, k := range Kinds() {
		if k.Name == "sokoban" {
			kinds = k.OptionKinds()
		}
	}
	fixed := map[string]any{judge.Key: envtest.Options("judge_base_url: http://ours/v1, judge_model: m")}
	h := served(
		t,
		"sokoban",
		env.Guard{
			Kinds: kinds, Complete: true, Fixed: fixed,
		}.Factory(
			func(config map[string]any) (env.Env, error) { return all.New("sokoban", config) },
		),
	)
	send := func(path, kind, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", kind)
		a, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		return a.StatusCode
	}
	for url, want := range map[string]int{`"judge_base_url": "http://theirs/v1", `: 403, `"unknwon": 1, `: 400, "": 200} {
		config := fmt.Sprintf(`{"state_reward": {%s"state_estimation": {"enable": true, "reward": 1}}}`, url)
		require.Equal(t, want, send("/connect", `multipart/form-data; boundary=b`,
			"--b\r\nContent-Type: application/json\r\n\r\n"+`{"env_config": `+config+"}\r\n--b--\r\n"))
		require.Equal(t, want, send("/environments", "application/json",
			`{"ids2configs": {"a": {"env_name": "sokoban", "env_config": `+config+`}}}`))
	}
	require.Equal(t, []string{"http://ours/v1"}, dialled)
}
