package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vagen/env/dataset"
	"vagen/internal/cli"
)

func datasetCommand() *cli.Command {
	return &cli.Command{
		Name:     "dataset",
		About:    "Build and show datasets: which environments are played with which seeds.",
		Commands: []*cli.Command{datasetBuild(), datasetShow()},
	}
}

// reading holds the flags that say how files are read.
type reading struct {
	options dataset.Options
	split   string
	base    int64
	any     bool

	halved, listed bool // a file is a legacy one, a file is a list of environments
}

func (r *reading) flags(f *flag.FlagSet) {
	f.StringVar(&r.split, "split", "train", "`split` of a legacy file to read: train or test")
	f.BoolVar(&r.options.Legacy.Separate, "separate", false,
		"generate disjoint training and test seeds for a legacy file, unlike the original system")
	f.Int64Var(&r.base, "base-seed", 0, "offset of the seeds that a list of environments generates")
	f.BoolVar(&r.any, "any-env", false, "accept names of environments that the library does not have")
}

// load reads a file, and the one with which it must share no level, "" for none. It refuses flags that neither needs.
func (r *reading) load(ctx context.Context, path, against string) (episodes, others []dataset.Episode, err error) {
	if r.options.Legacy.Split = dataset.Split(r.split); r.split != "train" && r.split != "test" {
		return nil, nil, cli.Usagef("--split is %q, must be train or test", r.split)
	}
	if !r.any {
		r.options.Known = registry().Names()
	}
	if episodes, err = r.read(ctx, path); err == nil && against != "" {
		others, err = r.read(ctx, against)
	}
	switch {
	case err != nil:
	case !r.halved && (r.split == "test" || r.options.Legacy.Separate):
		err = cli.Usagef("--split test or --separate is set, but %s is no legacy file, the only kind with splits", path)
	case !r.listed && r.base != 0:
		err = cli.Usagef("--base-seed is set, but %s is no list of environments, the only kind with drawn seeds", path)
	}
	return episodes, others, err
}

func (r *reading) read(ctx context.Context, path string) ([]dataset.Episode, error) {
	episodes, err := dataset.Load(ctx, path, r.base, r.options)
	if !strings.EqualFold(filepath.Ext(path), ".parquet") {
		legacy := len(episodes) == 0 || episodes[0].Legacy // a list has episodes
		r.halved, r.listed = r.halved || legacy, r.listed || !legacy
	}
	return episodes, asUsage(err, append(badPath, dataset.ErrFile)...)
}

func datasetBuild() *cli.Command {
	return &cli.Command{
		Name: "build", Args: "FILE.yaml FILE.parquet", Min: 2, Max: 2,
		About: "Write the episodes of a YAML file to a parquet file.",
		Help: `The YAML is a list of environments (envs: …) or a legacy env_config.yaml. The
parquet file has the columns of the original system, which can also read it.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			var r reading
			r.flags(f)
			var o dataset.ParquetOptions
			f.BoolVar(&o.JSON, "json-config", false, "write options as JSON text instead of columns")
			against := f.String("against", "", "`file` whose levels this one must not contain; if it does, nothing is written")
			force := f.Bool("force", false, "replace FILE.parquet if it exists")
			return func(ctx context.Context, c *cli.Call) error {
				if !strings.HasSuffix(strings.ToLower(c.Args[1]), ".parquet") {
					return cli.Usagef("%s does not end in .parquet", c.Args[1])
				}
				if _, err := os.Lstat(c.Args[1]); err == nil && !*force {
					return cli.Usagef("%s exists; --force replaces it", c.Args[1])
				}
				episodes, others, err := r.load(ctx, c.Args[0], *against)
				if err != nil {
					return err
				}
				if err := checkSeeds(c.Args[0], episodes); err != nil {
					return err
				}
				if err := dataset.Disjoint(episodes, others); err != nil {
					return err
				}
				if err := dataset.SaveParquet(c.Args[1], episodes, o); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "%d episodes in %s\n", len(episodes), c.Args[1])
				return err
			}
		},
	}
}

// checkSeeds refuses negative seeds, which environments do not support.
func checkSeeds(path string, episodes []dataset.Episode) error {
	for i := range episodes {
		if e := &episodes[i]; e.Seed < 0 {
			return cli.Usagef("%s: seed of episode %d (%s) is %d, must not be negative", path, i, e.Name, e.Seed)
		}
	}
	return nil
}

// kindOf summarises the episodes of one environment in a dataset.
type kindOf struct {
	Env      string `json:"env"`
	Source   string `json:"data_source"`
	Split    string `json:"split"`
	Episodes int    `json:"episodes"`
	Seeds    int    `json:"distinct_seeds"`
	Low      int64  `json:"lowest_seed"`
	High     int64  `json:"highest_seed"`
}

// shown is an episode as it is listed.
type shown struct {
	Env      string         `json:"env"`
	Seed     int64          `json:"seed"`
	Split    string         `json:"split"`
	Source   string         `json:"data_source"`
	Tag      string         `json:"tag_id,omitempty"`
	MaxTurns int            `json:"max_turns,omitempty"`
	Options  map[string]any `json:"options"`
}

func datasetShow() *cli.Command {
	return &cli.Command{
		Name: "show", Args: "FILE", Min: 1, Max: 1,
		About: "Summarise a dataset, and check whether it shares levels with another.",
		Help:  "FILE is YAML, as for vagen dataset build, or parquet.",
		JSON:  "write JSON: a list of environments or, with --episodes, of episodes",
		Setup: func(f *flag.FlagSet) cli.Run {
			var r reading
			r.flags(f)
			list := f.Bool("episodes", false, "list the episodes instead of counting them")
			against := f.String("against", "", "`file` whose levels must not be in this one; the command fails if they are")
			return func(ctx context.Context, c *cli.Call) error {
				episodes, others, err := r.load(ctx, c.Args[0], *against)
				if err != nil {
					return err
				}
				if *list {
					err = listEpisodes(c, episodes)
				} else {
					err = countEpisodes(c, episodes)
				}
				if err != nil {
					return err
				}
				return dataset.Disjoint(episodes, others)
			}
		},
	}
}

func listEpisodes(c *cli.Call, episodes []dataset.Episode) error {
	all := make([]shown, len(episodes))
	rows := [][]string{{"env", "seed", "split", "source", "tag"}}
	for i := range episodes {
		e := &episodes[i]
		all[i] = shown{Env: e.Env, Seed: e.Seed, Split: e.Split, Source: e.Source, Tag: e.Tag, MaxTurns: e.MaxTurns,
			Options: e.Options()}
		rows = append(rows, []string{e.Env, fmt.Sprint(e.Seed), e.Split, e.Source, e.Tag})
	}
	return c.Show(all, rows)
}

func countEpisodes(c *cli.Call, episodes []dataset.Episode) error {
	kinds := count(episodes)
	rows := [][]string{{"env", "source", "split", "episodes", "seeds", "lowest", "highest"}}
	for _, k := range kinds {
		rows = append(rows, []string{k.Env, k.Source, k.Split, fmt.Sprint(k.Episodes), fmt.Sprint(k.Seeds), fmt.Sprint(k.Low),
			fmt.Sprint(k.High)})
	}
	return c.Show(kinds, rows)
}

// count summarises a dataset by environment, source and split, in the order of their
// first episodes.
func count(episodes []dataset.Episode) []kindOf {
	type id struct{ env, source, split string }
	at := map[id]int{}
	var out []kindOf
	var seeds []map[int64]bool
	for i := range episodes {
		e := &episodes[i]
		key := id{e.Env, e.Source, e.Split}
		n, ok := at[key]
		if !ok {
			n = len(out)
			at[key] = n
			out = append(out, kindOf{Env: e.Env, Source: e.Source, Split: e.Split, Low: e.Seed, High: e.Seed})
			seeds = append(seeds, map[int64]bool{})
		}
		k := &out[n]
		k.Episodes++
		k.Low, k.High = min(k.Low, e.Seed), max(k.High, e.Seed)
		seeds[n][e.Seed] = true
		k.Seeds = len(seeds[n])
	}
	return out
}
