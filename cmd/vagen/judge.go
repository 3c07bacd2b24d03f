package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"vagen/internal/cli"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward/judge"
)

func judgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "judge",
		About: "Measure who scores descriptions of the state.",
		Commands: []*cli.Command{{
			Name: "eval", Args: "SET", Max: 1,
			About: "Compare what a judge reads in labelled descriptions with the labels.",
			Help: `SET is a JSON file {"cases": [{"env", "section", "category", "form", "text", "truth",
"relations"}]}: descriptions of FrozenLake or Sokoban states with the true relations and
those that the text asserts; testdata/judge/labelled.json is one. Without --base-url
the fixed rules are measured, which state_reward.scorer=rules uses; with it, the model
behind an OpenAI-compatible address.

F1 is that of relations, equal in object and both directions. "paid more" counts
descriptions that score higher than their label: what an agent could learn to exploit.
"unread" counts claims without an answer that can be parsed.`,
			Setup: func(f *flag.FlagSet) cli.Run {
				var o judgeEval
				f.StringVar(&o.url, "base-url", "", "OpenAI-compatible `address` of a model, such as http://localhost:8000/v1")
				f.StringVar(&o.model, "model", "", "`name` of the model at that address")
				f.StringVar(&o.keyEnv, "key-env", "", "environment `variable` with the key of the service")
				f.IntVar(&o.limit, "limit", 0, "use only the first `n` descriptions; 0 uses all")
				f.BoolVar(&o.json, "json", false, "print JSON")
				return o.run
			},
		}},
	}
}

type judgeEval struct {
	url, model, keyEnv string
	limit              int
	json               bool
}

func (o *judgeEval) run(ctx context.Context, c *cli.Call) error {
	switch {
	case len(c.Args) == 0:
		return cli.Usagef("SET is missing, must be a file of labelled descriptions")
	case o.limit < 0:
		return cli.Usagef("--limit is %d, must not be negative", o.limit)
	case (o.url == "") != (o.model == ""):
		return cli.Usagef("--base-url and --model must be given together")
	case o.keyEnv != "" && o.url == "":
		return cli.Usagef("--key-env is for a model, which needs --base-url")
	}
	file, err := os.Open(c.Args[0])
	if err != nil {
		return cli.Usagef("%w", err)
	}
	defer file.Close()
	set, err := judge.ReadLabelled(file)
	if err != nil {
		return cli.Usagef("%s: %w", c.Args[0], err)
	}
	if o.limit > 0 {
		set = set[:min(o.limit, len(set))]
	}
	reader, err := o.open(c)
	if err != nil {
		return err
	}
	began := time.Now()
	e, err := judge.Evaluate(ctx, reader, set)
	if err != nil {
		return err
	}
	c.Log.Info("descriptions scored", "n", len(set), "took", time.Since(began).Round(time.Millisecond))
	if o.json {
		return json.NewEncoder(c.Out).Encode(e)
	}
	return printQuality(c.Out, e)
}

// open returns the judge to measure.
func (o *judgeEval) open(c *cli.Call) (judge.Reader, error) {
	if o.url == "" {
		return new(judge.Rules), nil
	}
	options := chat.DefaultOptions(chat.OpenAI, o.model)
	options.BaseURL, options.KeyEnv, options.Log = o.url, o.keyEnv, c.Log
	m, err := chat.New(options)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return &judge.Model{Complete: policy.Ask(m, policy.Sampling{MaxTokens: 512}), Log: c.Log}, nil
}

func printQuality(w io.Writer, e *judge.Evaluation) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcases\tprecision\trecall\tF1\tlists right\tscore error\tpaid more\tunread\t")
	row := func(name string, q judge.Quality) {
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%d\t\n", name, q.Cases, q.Precision(), q.Recall(), q.F1(),
			float64(q.ExactLists)/float64(q.Cases), q.ScoreError, q.PaidMore, q.Unread)
	}
	row("all", e.All)
	for _, m := range []map[string]judge.Quality{e.Forms, e.Categories} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			row(key, m[key])
		}
	}
	return table.Flush()
}
