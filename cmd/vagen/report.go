package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/durable"
	"vagen/train/track/curve/plot"
	"vagen/train/view"
)

// plotted are the metrics that are drawn unless others are named, where a run has them.
var plotted = []string{"train/success", "val/success", "train/score", "val/score", "actor/entropy", "actor/ppo_kl",
	"critic/vf_loss", "response_length/mean"}

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Args: "RUN…", Min: 1, Max: 64,
		About: "Write the page of vagen view with a sample of a run's data into one HTML file.",
		Help: `The file opens in a browser without a server and without a network. It contains the
metrics, the configuration, and a sample of the episodes with their images, tokens and
credit: the run's estimator and some others, with the run's parameters; vagen view computes
them with others.

--plots draws curves for papers as well, as PNG and SVG files.

  vagen report runs/default-seed0 --out report.html --plots plots`,
		Setup: func(f *flag.FlagSet) cli.Run {
			r := report{Report: view.Report{}}
			f.StringVar(&r.out, "out", "report.html", "`file` to write")
			f.IntVar(&r.Episodes, "episodes", 40,
				fmt.Sprintf("`number` of episodes of each run, at most %d", view.MaxReportEpisodes))
			f.StringVar(&r.plots, "plots", "", "`folder` for plots; none are drawn without it")
			f.Var(&r.metrics, "metric", "`name` of a metric to plot; may be repeated; default: success, score, entropy, KL, value loss and length")
			return func(_ context.Context, c *cli.Call) error {
				r.Runs, r.Log = c.Args, c.Log
				return r.write(c)
			}
		},
	}
}

// report holds the flags.
type report struct {
	view.Report
	out, plots string
	metrics    cli.StringList
}

func (r *report) write(c *cli.Call) error {
	if r.Episodes < 0 || r.Episodes > view.MaxReportEpisodes {
		return cli.Usagef("--episodes: %d is not in [0, %d]", r.Episodes, view.MaxReportEpisodes)
	}
	if len(r.metrics) > 0 && r.plots == "" {
		return cli.Usagef("--metric needs --plots, the folder for the plots")
	}
	plots, err := r.lines()
	var page bytes.Buffer
	if err == nil {
		err = r.Write(&page)
	}
	if err != nil {
		return asUsage(err, view.ErrRun)
	}
	if err := durable.WriteFile(r.out, page.Bytes()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(c.Out, "%s\n", r.out)
	c.Log.Info("report written", "file", r.out, "bytes", page.Len())
	for _, l := range plots {
		if err := os.MkdirAll(r.plots, 0o755); err != nil {
			return fmt.Errorf("--plots: %w", err)
		}
		for _, ext := range []string{".png", ".svg"} {
			path := filepath.Join(r.plots, plotName(l.Label)+ext)
			if err := l.Write(path); err != nil {
				return fmt.Errorf("--plots: %w", err)
			}
			fmt.Fprintf(c.Out, "%s\n", path)
		}
	}
	return nil
}

// lines are the plots to draw, one metric of all runs each.
func (r *report) lines() (all []plot.Lines, err error) {
	if r.plots == "" {
		return nil, nil
	}
	runs, err := r.Curves()
	if err != nil {
		return nil, err
	}
	names := []string(r.metrics)
	if len(names) == 0 {
		names = plotted
	}
	for _, name := range names {
		l := plot.Lines{Title: name, Label: name}
		for _, run := range runs {
			if points := run.Series[name]; len(points) > 0 {
				l.Lines = append(l.Lines, plot.Line{Name: run.Run, Points: points})
			}
		}
		if len(l.Lines) > 0 {
			all = append(all, l)
		} else if len(r.metrics) > 0 {
			return nil, cli.Usagef("--metric: no run has %q", name)
		}
	}
	return all, nil
}

// plotName makes a file name of a metric's name.
func plotName(metric string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, metric)
}
