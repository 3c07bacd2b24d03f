package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"vagen/internal/cli"
	"vagen/internal/regular"
	"vagen/internal/settings"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/train/config"
	"vagen/train/judges"
)

func judgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "judge",
		About: "Measure who scores descriptions of the state.",
		Commands: []*cli.Command{{
			Name: "eval", Args: "SET [KEY=VALUE ...]", Max: -1,
			About: "Compare what a judge reads in labelled descriptions with the labels.",
			Help: `SET is a JSON file {"cases": [{"env", "section", "category", "form", "text", "truth",
"relations"}]}: descriptions of FrozenLake or Sokoban states with the true relations and
those that the text asserts; testdata/judge/labelled.json is one.

KEY=VALUE are keys of the block state_reward, such as scorer=judge,
judge_base_url=http://localhost:8000/v1, judge_model=NAME, judge.key_env=VARIABLE,
judge.cache=DIR, or judge.model=DIR for a model of this process; --config gives those of env.config in a run's configuration. Without any,
the fixed rules are measured. A model is asked as in training, except that
judge.step_budget does not apply. --base-url and --model are short for three of the keys.

F1 is that of relations, equal in object and both directions. "paid more" counts
descriptions that score higher than their label: what an agent could learn to exploit.
"unread" counts claims without an answer that can be parsed. If a model gave no such
answer at all, the exit code is 1.`,
			JSON: "print JSON",
			Setup: func(f *flag.FlagSet) cli.Run {
				var o judgeEval
				f.StringVar(&o.config, "config", "",
					"`file` with the configuration of a run, whose block env.config.state_reward is used")
				f.StringVar(&o.url, "base-url", "", "OpenAI-compatible `address` of a model, such as http://localhost:8000/v1")
				f.StringVar(&o.model, "model", "", "`name` of the model at that address")
				f.StringVar(&o.keyEnv, "key-env", "", "environment `variable` with the key of the service")
				f.IntVar(&o.limit, "limit", 0, "use only the first `n` descriptions; 0 uses all")
				return o.run
			},
		}},
	}
}

type judgeEval struct {
	config, url, model, keyEnv string
	limit                      int
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
	file, err := regular.Open(c.Args[0])
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
	models := &judges.Models{Log: c.Log}
	defer models.Close()
	reader, err := o.open(c, models)
	if err != nil {
		return err
	}
	ctx, asked := client.WithMeter(ctx)
	began := time.Now()
	e, err := judge.Evaluate(ctx, reader, set)
	if err != nil {
		return err
	}
	c.Log.Info("descriptions scored", "n", len(set), "took", time.Since(began).Round(time.Millisecond))
	usage := asked.Usage()
	if err := printEvaluation(c, e, usage); err != nil {
		return err
	}
	return answered(usage)
}

// printEvaluation writes the quality of a judge and what it was asked.
func printEvaluation(c *cli.Call, e *judge.Evaluation, usage client.Usage) error {
	if c.AsJSON {
		return json.NewEncoder(c.Out).Encode(struct {
			*judge.Evaluation
			Asked client.Usage `json:"asked"`
		}{e, usage})
	}
	if err := printQuality(c.Out, e); err != nil || usage.Claims == 0 {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "\n%d claims, %d answered from the cache, %d requests, %d without a valid answer %v\n",
		usage.Claims, usage.Cached, usage.Attempts, usage.Missing(), usage.Unscored)
	return err
}

// answered returns an error if a model gave no valid answer, so that nothing was measured.
func answered(u client.Usage) error {
	if u.Claims > 0 && u.Missing() == u.Claims {
		return fmt.Errorf("judge: none of %d claims has a valid answer %v", u.Claims, u.Unscored)
	}
	return nil
}

// open returns the judge to measure.
func (o *judgeEval) open(c *cli.Call, models *judges.Models) (judge.Reader, error) {
	block := map[string]any{}
	if o.config != "" {
		run, err := config.Load(o.config)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		given, ok := run.Env.Config[judge.Key].(map[string]any)
		if !ok {
			return nil, cli.Usagef("%s has no block env.config.%s", o.config, judge.Key)
		}
		block = given
	}
	keys := c.Args[1:]
	if o.url != "" {
		keys = append([]string{"scorer=judge", "judge_base_url=" + o.url, "judge_model=" + o.model}, keys...)
	}
	if o.keyEnv != "" {
		keys = append([]string{"judge.key_env=" + o.keyEnv}, keys...)
	}
	if len(keys) == 0 && o.config == "" {
		keys = []string{"scorer=rules"}
	}
	given, err := cli.Options(keys)
	if err != nil {
		return nil, err
	}
	block = settings.Merge(block, given, "")
	if _, _, err := judge.TakeStateReward(map[string]any{judge.Key: block}); err != nil { // before any of it is replaced
		return nil, cli.Usagef("%w", err)
	}
	block = settings.Merge(block, map[string]any{"enabled": true, "state_estimation": map[string]any{"enable": true}}, "")
	s, _, err := judge.TakeStateReward(map[string]any{judge.Key: block})
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	s.Service.StepBudget = 0
	if rules := s.Rules(); rules != nil {
		return rules, nil
	}
	ask, err := models.Dial(client.Dial(c.Log))(s)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return &judge.Model{Complete: ask}, nil
}

func printQuality(w io.Writer, e *judge.Evaluation) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcases\tprecision\trecall\tF1\tlists right\tscore error\tpaid more\tunread\t")
	row := func(name string, q judge.Quality) {
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%d\t\n", name, q.Cases, q.Precision(), q.Recall(),
			q.F1(),
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
