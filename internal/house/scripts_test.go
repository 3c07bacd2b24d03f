package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wandb stands for W&B's package: it prints what the script calls.
const wandb = `
import json

class Run:
    def __enter__(self):
        return self

    def __exit__(self, *reason):
        print("finish")

    def define_metric(self, name, step_metric):
        print("define", name, step_metric)

    def log(self, row):
        print("log", json.dumps(row))

def init(project, name, mode, dir):
    print("init", project, name, mode)
    return Run()
`

// python returns the interpreter.
func python(t *testing.T) string {
	path, err := exec.LookPath("python3")
	if err != nil && os.Getenv("VAGEN_REQUIRE_PYTHON") == "" {
		t.Skip("needs python3")
	}
	require.NoError(t, err)
	return path
}

// TestScriptsOfDocumentsAreParsed: what they import need not be installed.
func TestScriptsOfDocumentsAreParsed(t *testing.T) {
	found := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.lang == "python" {
				command(t, "", python(t), "-c", "import ast, sys\nast.parse(sys.argv[1])", b.text)
				found++
			}
		}
	}
	require.NotZero(t, found)
}

// TestTheScriptForWandBSendsEveryEvent runs the Python script of docs/results.md. Null stands
// for a number that is not finite, and the steps of imitation are not those of training.
func TestTheScriptForWandBSendsEveryEvent(t *testing.T) {
	python := python(t)
	raw, err := os.ReadFile(filepath.Join(root, "docs", "results.md"))
	require.NoError(t, err)
	var scripts []string
	for _, b := range markdown("results.md", string(raw)).blocks {
		if b.lang == "python" {
			scripts = append(scripts, b.text)
		}
	}
	require.Len(t, scripts, 1)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"to_wandb.py": scripts[0],
		"wandb.py":    wandb,
		"metrics.jsonl": `{"kind":"imitate","step":8,"imitate/loss":2.5,"time/step":1}
{"kind":"step","step":1,"train/score":0.25,"critic/vf_loss":null,"time/step":1}
{"kind":"save","step":1}
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	out := command(t, dir, python, "to_wandb.py", dir, "p", "e")
	require.Equal(t, []string{
		"init p e offline",
		"define * step",
		`log {"step": 8, "imitate/loss": 2.5}`,
		`log {"step": 1, "train/score": 0.25, "time/step": 1}`,
		`log {"step": 1}`,
		"finish",
	}, strings.Split(strings.TrimSpace(out), "\n"))
}
