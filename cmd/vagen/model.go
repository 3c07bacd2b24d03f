package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strings"

	"vagen/internal/cli"
	"vagen/policy/vlm"
	"vagen/policy/vlm/hub"
)

func modelCommand() *cli.Command {
	return &cli.Command{
		Name:     "model",
		About:    "Create or download models.",
		Commands: []*cli.Command{modelCreate(), modelFetch(), modelShapes()},
	}
}

func modelShapes() *cli.Command {
	return &cli.Command{
		Name:  "shapes",
		About: "List the shapes that model create knows.",
		JSON:  "write JSON: an object of shapes by name",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			shapes := map[string]vlm.Shape{}
			rows := [][]string{{"NAME", "FAMILY", "LAYERS", "HIDDEN", "HEADS", "VOCABULARY", "STORED IN"}}
			for _, name := range vlm.ShapeNames() {
				s, err := vlm.NamedShape(name)
				if err != nil {
					return err
				}
				shapes[name] = s
				family, dtype := s.Family, "float32"
				if family == "" {
					family = "qwen2_5_vl"
				}
				if s.BFloat16 {
					dtype = "bfloat16"
				}
				rows = append(rows, []string{name, family, fmt.Sprint(s.Layers), fmt.Sprint(s.Hidden),
					fmt.Sprintf("%d/%d", s.Heads, s.KVHeads), fmt.Sprint(s.Vocab), dtype})
			}
			return c.Show(shapes, rows)
		}),
	}
}

func modelFetch() *cli.Command {
	return &cli.Command{
		Name: "fetch", Args: "ID", Min: 1, Max: 1,
		About: "Download a model from the Hugging Face hub and print its folder.",
		Help: `ID is owner/name. An interrupted download resumes, and checksums are verified.
$HF_ENDPOINT is the address of another hub, $HF_TOKEN gives access to private models.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			var o hub.Options
			f.StringVar(&o.Revision, "revision", "main", "branch, tag or commit")
			f.StringVar(&o.Cache, "cache", "", "`folder` for models; empty is a folder in the user's cache")
			return func(ctx context.Context, c *cli.Call) error {
				o.Log = c.Log
				dir, err := hub.Fetch(ctx, c.Args[0], o)
				if err != nil {
					return asUsage(err, hub.ErrID)
				}
				_, err = fmt.Fprintln(c.Out, dir)
				return err
			}
		},
	}
}

func modelCreate() *cli.Command {
	return &cli.Command{
		Name: "create", Args: "DIR", Min: 1, Max: 1,
		About: "Write a model with random weights, for tests and benchmarks.",
		Help: `The folder is complete: configuration, weights, a tokenizer of bytes, chat template,
image processor. transformers loads it too.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			name := f.String("shape", "quickstart", "`name` of a shape; one of "+strings.Join(vlm.ShapeNames(), ", "))
			dtype := f.String("dtype", "", "store weights in float32 or bfloat16; empty uses that of the shape")
			seed := f.Uint64("seed", 0, "seed of the weights")
			var words cli.StringList
			f.Var(&words, "word", "`text` that is one token; may be repeated")
			untied := f.Bool("untied", false, "do not share the weights of the output head with the embedding")
			sizes := map[string]*int{}
			for _, s := range []struct{ name, about string }{
				{"layers", "decoder layers"}, {"hidden", "width of the decoder"}, {"ff", "width of its feed-forward part"},
				{"heads", "query heads"}, {"kv-heads", "key and value heads"}, {"head-dim", "width of a head"},
				{"vocab", "rows of the embedding"},
				{"linear-key-heads", "key heads of qwen3_5's delta nets"}, {"linear-value-heads", "value heads of these"},
				{"linear-head-dim", "width of their heads"},
			} {
				sizes[s.name] = f.Int(s.name, 0, s.about+"; 0 uses that of the shape")
			}
			return func(_ context.Context, c *cli.Call) error {
				s, err := vlm.NamedShape(*name)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				for name, field := range map[string]*int{"layers": &s.Layers, "hidden": &s.Hidden, "ff": &s.FF, "heads": &s.Heads,
					"kv-heads": &s.KVHeads, "head-dim": &s.HeadDim, "vocab": &s.Vocab,
					"linear-key-heads": &s.Linear.KeyHeads, "linear-value-heads": &s.Linear.ValueHeads,
					"linear-head-dim": &s.Linear.HeadDim} {
					if n := *sizes[name]; n != 0 {
						*field = n
					}
				}
				switch *dtype {
				case "":
				case "float32", "bfloat16":
					s.BFloat16 = *dtype == "bfloat16"
				default:
					return cli.Usagef("--dtype is %q, must be float32 or bfloat16", *dtype)
				}
				s.Untied = s.Untied || *untied
				err = vlm.Create(c.Args[0], s, words, *seed)
				var path *fs.PathError
				if err != nil && !errors.As(err, &path) {
					return cli.Usagef("%w", err) // an invalid shape, or a folder that already contains a model
				}
				return err
			}
		},
	}
}
