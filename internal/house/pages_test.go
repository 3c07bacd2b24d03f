package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/policy/loss"
)

// TestTheTableOfEstimatorsIsThatOfTheRegistry: docs/estimators.md lists every estimator once,
// with what it needs and which rows it takes.
func TestTheTableOfEstimatorsIsThatOfTheRegistry(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "estimators.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(raw), "\n| name | needs | rows |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[string]bool{}
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			name := m[1]
			require.False(t, listed[name], name)
			listed[name] = true
			spec, err := advantage.Describe(name)
			require.NoError(t, err)
			needs := strings.FieldsFunc(cells[2], func(r rune) bool { return r == ',' || r == ' ' })
			require.Equal(t, spec.Critic, slices.Contains(needs, "critic"), "%s: critic", name)
			require.Equal(t, spec.Groups, slices.Contains(needs, "groups"), "%s: groups", name)
			require.Equal(t, spec.RowLocal, strings.TrimSpace(cells[3]) == "one", "%s: rows", name)
		}
	}
	for _, name := range advantage.Names() {
		require.True(t, listed[name], "docs/estimators.md does not list %s", name)
	}
}

// TestTheTableOfSettingsIsThatOfTheEstimators: where a line is about one setting, these estimators read it.
func TestTheTableOfSettingsIsThatOfTheEstimators(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "estimators.md"))
	require.NoError(t, err)
	lines := regexp.MustCompile("(?m)^\\| `algorithm\\.([a-z_]+)` \\| (estimators with a critic(?:, except ([^;|]+))?)?(.*) \\|$").
		FindAllStringSubmatch(string(raw), -1)
	require.NotEmpty(t, lines)
	for _, m := range lines {
		for _, name := range advantage.Names() {
			spec, err := advantage.Describe(name)
			require.NoError(t, err)
			quoted := "`" + name + "`"
			listed := m[2] != "" && spec.Critic && !strings.Contains(m[3], quoted) || strings.Contains(m[4], quoted)
			require.Equal(t, spec.Reads(m[1]), listed, "%s: %s", m[1], name)
		}
	}
}

// TestTheTablesOfLossesAreThoseOfTheRegistry: docs/losses.md lists every policy loss, those whose tokens are
// independent under the headings that say so.
func TestTheTablesOfLossesAreThoseOfTheRegistry(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "losses.md"))
	require.NoError(t, err)
	var listed []string
	for _, section := range strings.Split(string(raw), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		_, table, _ := strings.Cut(text, "\n| name | loss of a token |")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)`(?:, `([a-z0-9_]+)`)?").FindAllStringSubmatch(table, -1) {
			for _, name := range slices.DeleteFunc(m[1:], func(name string) bool { return name == "" }) {
				p, err := loss.Builtin().New(name, loss.DefaultOptions())
				require.NoError(t, err)
				require.Equal(t, loss.Local(p), slices.Contains([]string{"Losses of tokens", "A teacher"}, heading), name)
				listed = append(listed, name)
			}
		}
	}
	slices.Sort(listed)
	require.Equal(t, loss.Builtin().Names(), slices.Compact(listed))
}

// TestLinksBetweenDocumentsExist: a relative link of a document names a file of the tree.
func TestLinksBetweenDocumentsExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(d.text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(d.path), m[1]))
			require.NoError(t, err, d.path)
		}
	}
}

// TestTheTemplatesOfDatasetsCanBeTrainedOn: a run with each pair of docs/templates passes all
// checks before its first step, and no level is in both files.
func TestTheTemplatesOfDatasetsCanBeTrainedOn(t *testing.T) {
	t.Parallel()
	vagen := vagen(t)
	dir := t.TempDir()
	command(t, dir, vagen, "model", "create", "--shape", "quickstart", "--layers", "1", "DIR")
	templates, err := filepath.Abs(filepath.Join(root, "docs", "templates"))
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(templates, "*"))
	require.NoError(t, err)
	require.Len(t, names, 6)
	for _, name := range names {
		train, val := filepath.Join(name, "train.yaml"), filepath.Join(name, "val.yaml")
		command(t, dir, vagen, "dataset", "show", train, "--against", val)
		out := command(t, dir, vagen, "train", "--preset", "lite_ppo", "--out", filepath.Base(name),
			"data.train_files="+train, "data.val_files="+val, "data.max_response_length=4000",
			"actor_rollout_ref.model.path=DIR",
			"model.backend=go", "trainer.total_training_steps=0", "trainer.val_before_train=false")
		require.NotContains(t, out, "also trained on", name)
	}
	for folder, preset := range map[string]string{"": "lite_grpo", "paper": "VAGEN-Full", "next": "next_bi_level"} {
		files, err := filepath.Glob(filepath.Join(templates, "*", folder, "run.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files { // their data files have paths from the root
			out := command(t, root, vagen, "train", file, "--preset", preset, "--dry-run", "--out", filepath.Join(dir, "none"),
				"model.backend=go",
				"actor_rollout_ref.model.path="+filepath.Join(dir, "DIR"))
			require.Contains(t, out, "can be trained", file)
		}
	}
}
