package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"vagen/internal/cli"
	"vagen/train/credit"
	"vagen/train/replay"
)

func creditCommand() *cli.Command {
	return &cli.Command{
		Name: "credit", Args: "RUN [key=value …]", Min: 1, Max: -1,
		About: "Measure what turns were worth, and compare estimators with it.",
		Help: `RUN is the folder of a run with a checkpoint of --step. The episodes that this
checkpoint's policy played, those of the step after it, are continued from every turn:
--branches times after the response that was given, and as often after one that the
policy draws anew. The difference of the mean returns is what the response was worth. The
table compares with it what estimators claim about the turns. Recorded episodes and
numbers are used where the run has them (trainer.rollout_data_dir, log_image.enable,
rollout_data_scores); otherwise they are played and computed anew, which the output says.

Results are written to RUN/credit: a file for each episode, which vagen view shows with
the episode, and step_N/table.json. Episodes that were played or scored are kept there,
too. A measurement that was stopped continues with the missing episodes. key=value sets a
secret again, such as env.config.token. Use the working directory of the run, so that
relative paths have the same meaning.`,
		JSON: "write the table as JSON",
		Setup: func(f *flag.FlagSet) cli.Run {
			o := creditFlags{Options: credit.DefaultOptions()}
			f.IntVar(&o.step, "step", 0, "training `step` of the checkpoint")
			f.IntVar(&o.Episodes, "episodes", 64, "number of episodes; 0 is all of the step")
			f.IntVar(&o.Branches, "branches", o.Branches, "continuations of each side of a turn")
			f.IntVar(&o.Alternatives, "alternatives", o.Alternatives,
				"other actions of a turn that are measured: the policy's most frequent ones")
			f.Var((*cli.StringList)(&o.Force), "force",
				"`answer` that is measured in every turn, too: the response with this text between its answer tags; may be repeated")
			f.Func("turns", "turns to measure, counted from 0, such as 0,2-4; default all", func(text string) (err error) {
				o.Turns, err = turnList(text)
				return err
			})
			f.Func("budget",
				"stop before the next eight episodes after so many response `tokens`, such as 200000, or after a time, such as 10m",
				o.setBudget)
			f.Func("estimators", "comma-separated `names` of estimators to compare; default all", func(text string) error {
				o.Estimators = strings.Split(text, ",")
				return nil
			})
			f.Var(&o.set, "set", "`key=value` of an estimator's hyperparameter instead of the run's, such as algorithm.lam=0.9; may be repeated")
			f.Float64Var(&o.Gamma, "gamma", o.Gamma,
				"discount between turns of the returns; default that of the run's estimator, 1 if it has none")
			f.Uint64Var(&o.Seed, "seed", 0, "`seed` of all random draws; default the run's")
			return func(ctx context.Context, c *cli.Call) error {
				if o.step < 1 {
					return cli.Usagef("--step is %d, must be 1 or more", o.step)
				}
				table, source, err := o.measure(ctx, c)
				if err != nil {
					return asUsage(err)
				}
				if c.AsJSON {
					return c.JSON(table)
				}
				return showTable(c, table, source)
			}
		},
	}
}

type creditFlags struct {
	credit.Options
	step int
	set  cli.StringList
}

// setBudget reads a number of tokens or a time.
func (o *creditFlags) setBudget(text string) (err error) {
	if o.MaxTokens, err = strconv.ParseInt(text, 10, 64); err != nil {
		o.MaxTime, err = time.ParseDuration(text)
	}
	if err != nil || o.MaxTokens < 0 || o.MaxTime < 0 || o.MaxTokens == 0 && o.MaxTime == 0 {
		return errors.New("must be a positive number of tokens, or a time such as 10m")
	}
	return nil
}

// maxTurn limits turns in --turns.
const maxTurn = 1 << 16

// turnList reads numbers and ranges such as 0,2-4.
func turnList(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > maxTurn {
			return nil, fmt.Errorf("found %q, must be turns from 0 to %d such as 0,2-4", part, maxTurn)
		}
		for k := from; k <= to; k++ {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// measure opens the checkpoint and measures.
func (o *creditFlags) measure(ctx context.Context, c *cli.Call) (table *credit.Table, source string, err error) {
	r, err := replay.OpenCredit(ctx, c.Args[0], c.Args[1:], o.step, nil, c.Log)
	if err != nil {
		return nil, "", asUsage(err, badRun...)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Set(o.set); err != nil {
		return nil, "", err
	}
	o.Params = r.Params
	if !c.Given("seed") {
		o.Seed = r.Seed
	}
	if !c.Given("gamma") {
		o.Gamma = r.Gamma
	}
	r.Options = o.Options
	c.Log.Info("measuring credit", "source", r.Source, "estimator", r.Step.Config.Algorithm.Estimator, "gamma", r.Gamma,
		"branches", r.Branches)
	begin := time.Now()
	r.Done = func(p credit.Progress) {
		left := time.Since(begin) / time.Duration(p.Episodes) * time.Duration(p.Of-p.Episodes)
		c.Log.Info("credit measured", "episodes", p.Episodes, "of", p.Of, "tokens", p.Tokens, "left", left.Round(time.Second))
	}
	table, err = r.Measure(ctx)
	return table, r.Source, asUsage(err, credit.ErrOptions)
}

// showTable writes a table as text.
func showTable(c *cli.Call, t *credit.Table, source string) error {
	fmt.Fprintf(c.Out, "checkpoint of step %d: %s\n", t.Checkpoint, source)
	fmt.Fprintf(c.Out, "%d episodes, %d turns with %d continuations of each side, discount between turns %v\n", t.Episodes,
		t.Turns, t.Branches, t.Gamma)
	fmt.Fprintf(c.Out, "decided %d turns, undecided %s; left out %d turns; episodes with a mistake %d\n\n", t.Decided,
		percent(t.Undecided), t.LeftOut, t.Mistakes)
	rows := [][]string{{"estimator", "turns", "Pearson", "Spearman", "same sign", "MSE", "Pearson above return"}}
	parts := [][]string{{"Pearson, turns:", "first", "middle", "last", "success", "failure"}}
	for i := range t.Estimators {
		l := &t.Estimators[i]
		name := l.Name
		if l.Baseline {
			name += " *"
		}
		rows = append(rows, []string{name, strconv.Itoa(l.All.N), figure(l.All.Pearson), figure(l.All.Spearman),
			figure(l.All.Sign), figure(l.All.MSE), figure(l.Above)})
		part := []string{name}
		for _, a := range []credit.Agreement{l.First, l.Middle, l.Last, l.Success, l.Failure} {
			part = append(part, fmt.Sprintf("%s (%d)", number(a.Pearson.Value), a.N))
		}
		parts = append(parts, part)
	}
	if err := c.Table(rows); err != nil {
		return err
	}
	fmt.Fprintln(c.Out, "* baseline. Intervals have 95 %.")
	fmt.Fprintln(c.Out)
	if err := c.Table(parts); err != nil {
		return err
	}
	if len(t.Remarks) > 0 {
		fmt.Fprintln(c.Out)
	}
	for _, r := range t.Remarks {
		fmt.Fprintln(c.Out, r)
	}
	byReason := map[string][]string{}
	for _, u := range t.Unavailable {
		byReason[u.Why] = append(byReason[u.Why], u.Name)
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(c.Out, "\nnot computed: %s: %s\n", strings.Join(byReason[why], ", "), why)
	}
	return nil
}

func figure(f credit.Figure) string {
	if math.IsNaN(float64(f.Low)) {
		return number(f.Value)
	}
	return fmt.Sprintf("%s [%s, %s]", number(f.Value), number(f.Low), number(f.High))
}

func number(x credit.Number) string {
	if math.IsNaN(float64(x)) {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(x))
}

func percent(x credit.Number) string {
	if math.IsNaN(float64(x)) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(x))
}
