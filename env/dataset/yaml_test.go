package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward/judge"

	"vagen/internal/safeyaml"
)

const specs = `
base_seed: 5
envs:
  - name: Sokoban
    n_envs: 3
    data_source: sokoban_train
    seed: [1, 100, 1]
    max_turns: 5
    response_length_per_turn: 512
    env_response_length: 64
    thinking_token_budget: 0
    stop_strings: "</answer>"
    tag_id: 7
    config: &vision
      render_mode: vision
      dim_room: [6, 6]
      format_reward: 0.5
      state_reward:
        state_estimation: {enable: true, reward: 0.1}
        transition_prediction: {enable: false, reward: 0}
        scorer: exact
  - name: frozen-lake
    n_envs: 2
    seed_list: [9, 8, 7]
    split: null
    config:
      <<: *vision
      state_reward: ~
      dim_room: ~
      size: 4
`

var known = []string{"frozenlake", "remote", "remote_legacy", "sokoban"}

func TestSpecsAreTyped(t *testing.T) {
	f, err := ReadSpecs([]byte(specs), Options{Known: known})
	require.NoError(t, err)
	require.Equal(t, int64(5), f.BaseSeed)
	s := f.Specs[0]
	require.Equal(t, "Sokoban", s.Name)
	require.Equal(t, "7", s.Tag)
	zero := 0
	require.Equal(t, Limits{MaxTurns: 5, ResponseTokens: 512, ObserveTokens: 64, ThinkTokens: &zero,
		Stop: []string{"</answer>"}}, s.Limits)
	require.Equal(t, map[string]any{"render_mode": "vision", "dim_room": []any{int64(6), int64(6)}, "format_reward": 0.5},
		s.Config)
	want := judge.DefaultStateReward()
	want.Estimation, want.Scorer = Section{Enable: true, Reward: 0.1}, "exact"
	require.Equal(t, &want, s.StateReward)

	// Merged, then removed with null; the first entry is unchanged.
	require.Equal(t, map[string]any{"render_mode": "vision", "format_reward": 0.5, "size": int64(4)}, f.Specs[1].Config)
	require.Nil(t, f.Specs[1].StateReward)

	episodes, err := f.Episodes()
	require.NoError(t, err)
	require.Len(t, episodes, 5)
	require.Equal(t, Episode{Name: "frozen-lake", Env: "frozenlake", Config: f.Specs[1].Config, Seed: 8, Source: "default",
		Split: "default", Entry: 1}, episodes[4])
	require.Equal(t, "sokoban", episodes[0].Env)
	require.Equal(t, "sokoban_train", episodes[0].Source)
}

// entry returns a file with one entry and further lines.
func entry(lines ...string) string {
	return "envs:\n  - name: sokoban\n    n_envs: 2\n    " + strings.Join(lines, "\n    ") + "\n"
}

func TestBadSpecsAreReportedWithLineAndKey(t *testing.T) {
	for text, wants := range map[string][]string{
		"":                                  {"it is empty"},
		"envs: []\n":                        {"line 1: envs: must be a list"},
		"envs: 7\n":                         {"must be a list"},
		"- a\n":                             {"mapping is expected"},
		"env:\n  - name: a\n":               {"line 1: env: unknown key, did you mean \"envs\"?", "envs: must be a list"},
		"a: 1\n---\nb: 2\n":                 {"line 2: a second document begins"},
		"envs: [\n":                         {"bad dataset"},
		"envs:\n  - 7\n":                    {"line 2: envs[0]: it is 7, must be a mapping"},
		"envs:\n  - name: a\n":              {"line 2: envs[0]: n_envs is 0"},
		entry("max_turn: 5"):                {`line 2: envs[0]: unknown key "max_turn", did you mean "max_turns"?`},
		entry("max_turns: -5", "n_envs: 0"): {"already defined"},
		entry("max_turns: -5", "stop_strings: ['']"): {"max_turns is -5",
			"stop_strings[0] is empty"},
		entry("max_turns: five", "seed: [1.5]"): {"max_turns is five",
			"seed[0] is 1.5"},
		entry("seed: 99999999999999999999"): {"seed"},
		entry("seed: 18446744073709551615"): {"above 9223372036854775807"},
		entry("seed: []", "seed_list: [1]"): {
			"seed_list has 1 seeds for 2 episodes"},
		entry("tag_id: ../../etc"):                                      {`tag_id: "../../etc" begins`},
		entry("data_source: a/b"):                                       {`contains '/'`},
		entry(`split: "a\u0000"`):                                       {`contains '\x00'`},
		entry("thinking_token_budget: -1"):                              {"thinking_token_budget is -1"},
		entry("env_response_length: 3", "max_env_response_per_turn: 4"): {"its new name, is 4"},
		entry("config: 3"):                                              {"config is 3"},
		entry("config: {state_reward: 3}"):                              {"config.state_reward is 3"},
		entry("config: {state_reward: {scorer: me}}"): {
			`scorer is "me", must be one of ["judge" "rules" "exact"]`},
		entry("config: {state_reward: {scorrer: judge}}"): {
			`unknown key "scorrer", did you mean "scorer"?`},
		entry("config: {state_reward: {state_estimation: 3}}"): {"state_estimation is 3",
			"must be a mapping"},
		entry("config: {state_reward: {state_estimation: {enable: true, reward: 1}}}"): {"judge_base_url",
			"judge_model is missing"},
		entry("config: {url: '${oc.env:VAGEN_TEST_PORT}'}"): {
			"line 4: the environment variable VAGEN_TEST_PORT is not set"},
		entry("config: {url: '${a.b}'}"):                {"${a.b is not of the form"},
		entry("config: {when: !!timestamp 2020-01-01}"): {"bad dataset"},
		"envs:\n  - name: soko\n    n_envs: 1\n": {
			`environment "soko" is unknown, did you mean "sokoban"?`},
		"envs:\n  - name: remot\n    n_envs: 5000000\n": {"n_envs is 5000000"},
		entry("tag_id: A") + "  - name: sokoban\n    n_envs: 1\n    tag_id: a\n": {
			`line 5: envs[1]: tag_id "a" is the tag of envs[0]`},
		strings.Replace(entry(""), "2", "4194304", 1) + "  - {name: sokoban, n_envs: 1}\n": {"more than 4194304 episodes"},
		"a: " + strings.Repeat("[", 100000):                                                {"nested"},
		"a: " + strings.Repeat("- ", 100000):                                               {"nested"},
		strings.Repeat("a", safeyaml.MaxBytes+1):                                           {"16777216 are allowed"},
	} {
		_, err := ReadSpecs([]byte(text), Options{Known: known})
		shown := text[:min(len(text), 200)]
		require.ErrorIs(t, err, ErrFile, shown)
		for _, want := range wants {
			require.ErrorContains(t, err, want, shown)
		}
	}
}

// TestAliasesDoNotExplode with lists that each repeat the one before eight times.
func TestAliasesDoNotExplode(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n")
	for _, x := range []string{"1 0", "2 1", "3 2", "4 3", "5 4", "6 5", "7 6", "8 7"} {
		b.WriteString("a" + x[:1] + ": &a" + x[:1] + " [" + strings.Repeat("*a"+x[2:]+", ", 8) + "]\n")
	}
	_, err := ReadSpecs([]byte(b.String()), Options{})
	require.ErrorContains(t, err, "more than 1048576 values")
}

func TestNamesAreResolvedToRegisteredEnvironments(t *testing.T) {
	for name, want := range map[string]string{"Sokoban": "sokoban", "FrozenLake": "frozenlake",
		"Remote_Legacy": "remote_legacy", "RemoteEnv": "remote"} {
		got, err := registered(name, known)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := registered("A-B", []string{"ab", "a_b"})
	require.ErrorContains(t, err, `"A-B" is ambiguous: it may be any of ab, a_b`)
}

func TestReferencesAreEnvironmentVariables(t *testing.T) {
	t.Setenv("VAGEN_TEST_HOST", "from HOST")
	text := entry("config: {url: 'http://${oc.env:VAGEN_TEST_HOST}/${oc.env:VAGEN_TEST_PORT, 80}'}")
	f, err := ReadSpecs([]byte(text), Options{})
	require.NoError(t, err)
	require.Equal(t, "http://from HOST/80", f.Specs[0].Config["url"])
}

const legacy = `
env1:
    env_name: sokoban
    env_config: {render_mode: text, min_actions_to_succeed: 6}
    train_size: 6
    test_size: 2
env0:
    env_name: frozenlake
    train_size: 4
    test_size: 3
`

func TestLegacyFilesGiveTheOriginalSeeds(t *testing.T) {
	read := func(o LegacyOptions) []Episode {
		episodes, err := expand(t.Context(), []byte(legacy), 0, Options{Known: known, Legacy: o})
		require.NoError(t, err)
		return episodes
	}
	train, test := read(LegacyOptions{}), read(LegacyOptions{Split: Test})
	require.Len(t, train, 10)
	require.Len(t, test, 5)
	first := train[0]
	require.Equal(t, []any{"sokoban", "env1", "train", true}, []any{first.Env, first.Tag, first.Split, first.Legacy})
	require.Equal(t, "legacy", first.Options()["rules"])
	require.NotContains(t, first.Config, "rules")
	// Python: random.seed(0); random.sample(range(20004), 4)
	require.Equal(t, []int64{12623, 13781, 1326, 8484},
		[]int64{train[6].Seed, train[7].Seed, train[8].Seed, train[9].Seed})
	require.Error(t, Disjoint(train, test), "as in the original")

	require.NoError(t, Disjoint(read(LegacyOptions{Separate: true}), read(LegacyOptions{Separate: true, Split: Test})))
}

func legacyOf(t *testing.T, text string, o Options) (*legacyFile, error) {
	doc, err := parse([]byte(text))
	require.NoError(t, err, text)
	return readLegacy(doc, o)
}

func TestBadLegacyFilesAreReported(t *testing.T) {
	for text, want := range map[string]string{
		"a: 3\n":                                   "line 1: a: it is 3",
		"a: {env_nam: sokoban}\n":                  `did you mean "env_name"?`,
		"a: {env_config: {}}\n":                    "env_name: it is empty",
		"a: {env_name: ../x}\n":                    "env_name: ",
		"../a: {env_name: sokoban}\n":              "name of the entry: ",
		"a: {env_name: sokobun}\n":                 `did you mean "sokoban"?`,
		"a: {env_name: sokoban, train_size: -1}\n": "train_size is -1",
		"a: {env_name: sokoban, test_size: 1e9}\n": "test_size",
		"a: {env_name: sokoban, train_size: 4000000, test_size: 1000000}": "more than 4194304 episodes",
	} {
		_, err := legacyOf(t, text, Options{Known: known})
		require.ErrorIs(t, err, ErrFile, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := legacyOf(t, legacy, Options{Legacy: LegacyOptions{Split: "val"}})
	require.ErrorContains(t, err, `split is "val", must be train or test`)
	f, err := legacyOf(t, "a: {env_name: x, train_size: 3}", Options{Legacy: LegacyOptions{Seeders: map[string]Seeder{}}})
	require.NoError(t, err)
	f.options.Seeders["x"] = sokobanSeeds
	f.Entries[0].Config["boxes"] = 3
	_, err = f.Episodes(t.Context())
	require.ErrorContains(t, err, "line 1: a: ")
}

func TestLoadRecognisesTheForms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	a, err := Load(t.Context(), write("a.yaml", specs), 1, Options{})
	require.NoError(t, err)
	f, err := ReadSpecs([]byte(specs), Options{})
	require.NoError(t, err)
	f.BaseSeed += 1
	want, err := f.Episodes()
	require.NoError(t, err)
	require.Equal(t, want, a)

	b, err := Load(t.Context(), write("b.YML", legacy), 1, Options{})
	require.NoError(t, err)
	require.Len(t, b, 10)

	path := filepath.Join(dir, "c.parquet")
	require.NoError(t, SaveParquet(path, a, ParquetOptions{}))
	c, err := Load(t.Context(), path, 1, Options{})
	require.NoError(t, err)
	require.Len(t, c, len(a))

	for want, path := range map[string]string{
		"must be .yaml":                       write("d.txt", ""),
		"e.yaml: dataset: ":                   filepath.Join(dir, "e.yaml"),
		"f.parquet: ":                         write("f.parquet", "PAR1"),
		dir + ": dataset: not a regular file": dir,
	} {
		_, err := Load(t.Context(), path, 0, Options{})
		require.ErrorContains(t, err, want)
	}
}
