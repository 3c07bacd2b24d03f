package dataset_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vagen/env/dataset"
)

// Read a list of environments and print the seeds of its episodes.
func Example() {
	dir, err := os.MkdirTemp("", "dataset")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train.yaml")
	file := `
envs:
  - name: frozenlake
    n_envs: 3
    seed_list: [9, 8, 7]
    config: {size: 4}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		log.Fatal(err)
	}
	episodes, err := dataset.Load(context.Background(), path, 0, dataset.Options{Known: []string{"frozenlake"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range episodes {
		fmt.Println(e.Env, e.Seed, e.Config)
	}
	// Output:
	// frozenlake 9 map[size:4]
	// frozenlake 8 map[size:4]
	// frozenlake 7 map[size:4]
}
