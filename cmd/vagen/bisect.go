package main

import (
	"context"
	"fmt"

	"vagen/internal/cli"
	"vagen/train/proof"
)

func bisectCommand() *cli.Command {
	return &cli.Command{
		Name: "bisect", Args: "RUN RUN", Min: 2, Max: 2,
		About: "Find the first difference between two runs, and the likely cause.",
		Help: `The folders of the runs are not changed. The runs are compared step by step: stored
episodes (the first token, log-prob, reward that differs), stored scores, metrics,
and the weights of the first checkpoint that both have. The likely cause is a setting,
the seed, the model, the plugin, the processor or the code, as far as the runs recorded
them in proof.jsonl. Runs that differ are no failure of the command.`,
		JSON: "write JSON",
		Setup: cli.NoFlags(func(ctx context.Context, c *cli.Call) error {
			b, err := proof.Bisect(ctx, c.Args[0], c.Args[1])
			if err != nil {
				return asUsage(err, badRun...)
			}
			return c.Show(b, bisectionRows(b))
		}),
	}
}

func bisectionRows(b *proof.Bisection) (rows [][]string) {
	add := func(what, text string) { rows = append(rows, []string{what, text}) }
	if b.First == nil {
		add("first difference", "none")
	} else {
		add("first difference", fmt.Sprintf("step %d, %s: %s", b.First.Step, b.First.Stage, b.First.What))
		add("likely cause", b.Cause)
	}
	add("equal steps", fmt.Sprint(b.Compared))
	if w := b.Weights; w != nil && w != b.First {
		add("first weights", fmt.Sprintf("step %d: %s", w.Step, w.What))
	}
	for _, line := range b.Config {
		add("setting", line)
	}
	for _, d := range b.Facts {
		add("fact", d.String())
	}
	for _, text := range b.Sessions {
		add("session", text)
	}
	for _, text := range b.Notes {
		add("not compared", text)
	}
	return rows
}
