package dataset

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
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
	texts := map[string][]string{
		strings.Replace(entry(""), "2", "4194304", 1) + "  - {name: sokoban, n_envs: 1}\n": {"more than 4194304 episodes"},
		"a: " + strings.Repeat("[", 100000):                                                {"nested"},
		"a: " + strings.Repeat("- ", 100000):                                               {"nested"},
		strings.Repeat("a", safeyaml.MaxBytes+1):                                           {"16777216 are allowed"},
	}
	for _, c := range golden.Table[[]struct {
		Entry []string
		More  string
		Wants []string
	}](t, "badspecs.yaml") {
		text := c.More
		if c.Entry != nil {
			text = entry(c.Entry...) + text
		}
		texts[text] = c.Wants
	}
	for text, wants := range texts {
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
		testkit.Error(t, err, ErrFile, want)
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
		testkit.Write(t, path, text)
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
