package house_test

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// small are overrides with which training takes about a second.
var small = []string{
	"model.backend=go", "model.bfloat16=false", "trainer.total_training_steps=1", "data.train_batch_size=1",
	"data.val_batch_size=1",
	"data.max_response_length=4", "rollout_manager.max_turns=1", "actor_rollout_ref.actor.ppo_mini_batch_size=1",
}

// smallSFT does the same for the supervised stage.
const smallSFT = "sft.total_training_steps=1 sft.train_batch_size=1 sft.max_length=1024 sft.truncation=drop"

// rule is how to run a command: testdata/commands.yaml has all of them, and explains the fields.
type rule struct {
	More, Instead, Why string
	Serves, Makes      bool
}

// numbers are replaced in benchmarks: those that differ in nothing else are the same command with the numbers of their
// rule.
var numbers = regexp.MustCompile(`\b[0-9]+\b`)

// TestTheDocumentsRun runs every program and every command of the documents. Each document
// has a folder with the files that its commands name and the files of its YAML blocks.
func TestTheDocumentsRun(t *testing.T) {
	t.Parallel()
	vagen(t)
	programs(t)
	files, rules := examples(t), golden.Table[map[string]rule](t, "commands.yaml")
	for _, d := range documents(t) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(files)))
			for _, b := range d.blocks {
				if b.lang == "yaml" {
					name, _, _ := strings.Cut(strings.TrimPrefix(b.text, "# "), "\n")
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o644))
				}
			}
			ran := map[string]bool{}
			for i, b := range d.blocks {
				switch b.lang {
				case "go":
					command(t, dir, programs(t), program(d, i))
				case "sh":
					for _, line := range commands(b.text) {
						same := numbers.ReplaceAllString(line, "1")
						if !ran[same] || !strings.HasPrefix(line, "vagen bench ") {
							shell(t, rules, dir, line)
						}
						ran[same] = true
					}
				}
			}
		})
	}
}

// program is the name of the program in a block.
func program(d document, i int) string {
	return strings.ReplaceAll(d.name, ".", "-") + "-" + strconv.Itoa(i)
}

// short changes a program that trains for 100 steps to use the overrides of small.
func short(program string) string {
	return strings.ReplaceAll(program, `"trainer.total_training_steps=100"`, `"`+strings.Join(small, `", "`)+`"`)
}

var remark = regexp.MustCompile(` +# .*$`)

// commands returns the commands of a block without their comments. A here-document belongs
// to the command before it.
func commands(text string) []string {
	var all []string
	end := ""
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if end != "" {
			all[len(all)-1] += "\n" + line
			if line == end {
				end = ""
			}
			continue
		}
		line = remark.ReplaceAllString(line, "")
		all = append(all, line)
		if _, word, ok := strings.Cut(line, "<<'"); ok {
			end = strings.TrimSuffix(word, "'")
		}
	}
	return all
}

// shell runs a command according to its rule.
func shell(t *testing.T, rules map[string]rule, dir, line string) {
	if _, test, ok := strings.Cut(line, "go test "); ok {
		packagesExist(t, line, append([]string{"go", "test"}, strings.Fields(test)...))
	}
	line = strings.Replace(line, "go run ./examples/quickstart", "programs quickstart", 1) // is linked already
	var r rule
	longest := ""
	for prefix := range rules {
		if strings.HasPrefix(line, prefix) && len(prefix) > len(longest) {
			r, longest = rules[prefix], prefix
		}
	}
	require.True(t, longest != "" || regexp.MustCompile(`^(vagen|go|cat) `).MatchString(line),
		"%q: no rule says how to run it", line)
	if strings.HasPrefix(line, "go ") || strings.HasPrefix(r.Instead, "go ") {
		dir = root
	}
	if r.Makes {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, line[strings.LastIndex(line, " ")+1:])))
	}
	overrides := strings.NewReplacer("SMALL_SFT", smallSFT, "SMALL", strings.Join(small, " "))
	if r.Instead != "" {
		line = overrides.Replace(r.Instead)
	} else if r.More != "" {
		line += " " + overrides.Replace(r.More)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = dir
	if !r.Serves {
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		return
	}
	cmd.Args[2] = "exec " + line
	logs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make([]byte, 4096)
	n, err := logs.Read(said) // the service logs its address
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Zero(t, cmd.ProcessState.ExitCode(), "%s\n%s", line, said[:n])
}

// examples creates a folder with the files that commands name: a model DIR, runs of one step,
// configurations, datasets and a picture.
func examples(t *testing.T) string {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	vagen := func(line string) { command(t, dir, "bash", "-c", "vagen "+line) }
	for name, seeds := range map[string]string{"envs": "[0, 9, 1]", "val": "[100, 109, 1]", "more": "[200, 209, 1]"} {
		write(name+".yaml", fmt.Sprintf(
			"envs: [{name: FrozenLake, n_envs: 2, tag_id: %s, seed: %s, max_turns: 1, response_length_per_turn: 8, config: {render_mode: vision}}]\n", name, seeds))
	}
	for _, name := range []string{"docs/templates", "testdata/judge"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, name))))
	}
	write("chats.jsonl", `{"messages":[{"role":"user","content":"Where?"},{"role":"assistant","content":"Left"}]}`+"\n"+
		`{"prompt":"Where?","response":"Right"}`+"\n")
	vagen("dataset build val.yaml val.parquet")
	vagen("model create --shape quickstart --layers 1 --word '<answer>' --word '</answer>' DIR")
	write("run.yaml", "env: {name: frozenlake, config: {render_mode: vision, prompt: brief}}\nactor_rollout_ref: {model: {path: DIR}}\n")
	write("eval.yaml", "envs: [{name: FrozenLake, n_envs: 1, tag_id: a, seed: [0, 0, 1], max_turns: 1, response_length_per_turn: 8, config: {render_mode: vision}}]\n"+
		"experiment: {dump_dir: rollouts}\nrun: {backend: local}\nbackends: {local: {model: DIR, engine: go}}\n")
	vagen("train run.yaml " + strings.Join(small, " ") + " trainer.rollout_data_dir=runs/p/e/rollouts --out runs/p/e")
	vagen("train run.yaml " + strings.Join(small, " ") + " 'trainer.logger=[jsonl, wandb]' --out runs/PROJECT/EXPERIMENT")
	actor := filepath.Join(dir, "runs", "a", "b", "checkpoints", "step_40", "actor")
	require.NoError(t, os.CopyFS(actor, os.DirFS(filepath.Join(dir, "DIR"))))
	picture, err := os.Create(filepath.Join(dir, "picture.png"))
	require.NoError(t, err)
	defer picture.Close()
	require.NoError(t, png.Encode(picture, image.NewRGBA(image.Rect(0, 0, 56, 56))))
	return dir
}
