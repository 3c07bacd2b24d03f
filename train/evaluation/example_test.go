package evaluation_test

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/train/evaluation"
)

// A configuration lists environments, with a tag for the results of each, and backends of
// which one is selected.
func Example() {
	dir, err := os.MkdirTemp("", "evaluation")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "eval.yaml")
	if err := os.WriteFile(path, []byte(`
envs:
  - {name: FrozenLake, n_envs: 3, tag_id: lake, seed: [1, 9, 2], config: {render_mode: text}}
default_chat_config: {temperature: 0.7, max_tokens: 100}
run: {backend: openai}
backends:
  openai: {model: some-model}
  local: {model: model}
`), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	plan, err := evaluation.Load(path, []string{"run.backend=local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range plan.Tasks {
		fmt.Printf("%s: %d episodes of %s, temperature %v\n", task.Tag, len(task.Episodes), task.Episodes[0].Env,
			task.Player.Sampling.Temperature)
	}
	fmt.Println(plan.Backend.API, plan.Backend.Model)
	// Output:
	// lake: 3 episodes of frozenlake, temperature 0.7
	// local model
}
