package evaluate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/durable"
	"vagen/internal/jsontext"
)

// Row has the results of a model in a task. Statistics are over the usable episodes.
type Row struct {
	Tag      string         `json:"tag_id"`
	Model    string         `json:"model"`
	Episodes int            `json:"episodes"`
	Unusable int            `json:"unusable"`
	ByEnd    map[string]int `json:"finish_reasons"`

	Success        Estimate            `json:"success"`
	Score          Estimate            `json:"score"`
	Reward         map[string]Estimate `json:"reward"`
	Turns          Estimate            `json:"turns"`
	FormatCorrect  float64             `json:"format_correct"` // share of all turns
	Truncated      float64             `json:"truncated"`      // share of all turns
	ResponseTokens Estimate            `json:"response_tokens"`
	PromptTokens   Estimate            `json:"prompt_tokens"`
	Cost           Estimate            `json:"cost"`       // per episode
	TotalCost      float64             `json:"total_cost"` // unusable episodes included
}

// Report is the table of an evaluation: a row for each tag and model.
type Report struct {
	Level float64 `json:"confidence"`
	Rows  []Row   `json:"rows"`
}

// report makes the report of all results, tags in the order of the tasks, models by name.
func (e *Evaluation) report() *Report {
	out := &Report{Level: Level}
	for i := range e.Tasks {
		byModel := map[string][]EpisodeResult{}
		for _, r := range e.results[e.Tasks[i].Tag] {
			byModel[r.Model] = append(byModel[r.Model], r)
		}
		for _, model := range slices.Sorted(maps.Keys(byModel)) {
			rs := byModel[model]
			slices.SortFunc(rs, func(a, b EpisodeResult) int { return strings.Compare(a.ID, b.ID) })
			out.Rows = append(out.Rows, summarize(rs))
		}
	}
	return out
}

// summarize makes the row of one tag and model.
func summarize(rs []EpisodeResult) Row {
	row := Row{Tag: rs[0].Tag, Model: rs[0].Model, Episodes: len(rs), ByEnd: map[string]int{},
		Reward: map[string]Estimate{}}
	var used []EpisodeResult
	success, turns, format, cut := 0, 0, 0, 0
	for _, r := range rs {
		row.ByEnd[r.End]++
		row.TotalCost += r.Cost
		if !r.Usable() {
			row.Unusable++
			continue
		}
		used = append(used, r)
		if r.Success {
			success++
		}
		turns, format, cut = turns+r.Turns, format+r.FormatCorrect, cut+r.Truncated
	}
	mean := func(of func(*EpisodeResult) float64) Estimate {
		xs := make([]float64, len(used))
		for i := range used {
			xs[i] = of(&used[i])
		}
		return MeanOf(xs, Level)
	}
	row.Success = ShareOf(success, len(used))
	row.Score = mean(func(r *EpisodeResult) float64 { return r.Score })
	for _, name := range parts(used) {
		row.Reward[name] = mean(func(r *EpisodeResult) float64 { return r.Reward[name] })
	}
	row.Turns = mean(func(r *EpisodeResult) float64 { return float64(r.Turns) })
	row.ResponseTokens = mean(func(r *EpisodeResult) float64 { return float64(r.ResponseTokens) })
	row.PromptTokens = mean(func(r *EpisodeResult) float64 { return float64(r.PromptTokens) })
	row.Cost = mean(func(r *EpisodeResult) float64 { return r.Cost })
	if turns > 0 {
		row.FormatCorrect, row.Truncated = float64(format)/float64(turns), float64(cut)/float64(turns)
	}
	return row
}

// tables returns the rows as texts: one table of results, one of reward parts.
func (r *Report) tables() (figures, rewards [][]string) {
	costs := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.TotalCost > 0 })
	head := []string{"tag", "model", "episodes", "unusable", "success", "score", "turns", "format", "truncated",
		"response tokens", "prompt tokens"}
	if costs {
		head = append(head, "cost", "total cost")
	}
	figures, rewards = [][]string{head}, [][]string{{"tag", "model", "reward", "mean per episode"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		line := []string{
			row.Tag, row.Model, fmt.Sprint(row.Episodes), row.failures(), row.rate(), row.Score.String(), row.Turns.String(),
			fmt.Sprintf("%.2f", row.FormatCorrect), fmt.Sprintf("%.2f", row.Truncated), row.ResponseTokens.String(),
			row.PromptTokens.String(),
		}
		if costs {
			line = append(line, row.Cost.String(), fmt.Sprintf("%.4g", row.TotalCost))
		}
		figures = append(figures, line)
		for _, name := range slices.Sorted(maps.Keys(row.Reward)) {
			rewards = append(rewards, []string{row.Tag, row.Model, name, row.Reward[name].String()})
		}
	}
	return figures, rewards
}

// rate returns the share of successes, with the number of episodes if some are left out.
func (r *Row) rate() string {
	if r.Unusable == 0 {
		return r.Success.String()
	}
	return fmt.Sprintf("%v of %d", r.Success, r.Success.N)
}

// failures returns how many episodes cannot be used, by reason.
func (r *Row) failures() string {
	if r.Unusable == 0 {
		return "0"
	}
	var why []string
	for _, end := range slices.Sorted(maps.Keys(r.ByEnd)) {
		if e := (EpisodeResult{End: end}); !e.Usable() {
			why = append(why, fmt.Sprintf("%d %s", r.ByEnd[end], end))
		}
	}
	return strings.Join(why, ", ")
}

// legend explains the intervals in brackets.
const legend = "In brackets: 95 % confidence intervals, Wilson's for success, Student's for means over episodes."

var errNoWriter = errors.New("evaluate: report: the writer is nil")

// WriteText writes the tables in aligned columns.
func (r *Report) WriteText(w io.Writer) error {
	if w == nil {
		return errNoWriter
	}
	figures, rewards := r.tables()
	if err := cli.Table(w, figures); err != nil {
		return err
	}
	if len(rewards) > 1 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := cli.Table(w, rewards); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", legend)
	return err
}

// WriteMarkdown writes the tables in the form of GitHub's Markdown.
func (r *Report) WriteMarkdown(w io.Writer) error {
	if w == nil {
		return errNoWriter
	}
	figures, rewards := r.tables()
	var out strings.Builder // written at once, so that no error of w is lost
	for _, table := range [][][]string{figures, rewards} {
		if len(table) < 2 {
			continue
		}
		for i, line := range table {
			for j := range line {
				line[j] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(line[j])
			}
			fmt.Fprintf(&out, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(&out, "|%s\n", strings.Repeat(" --- |", len(line)))
			}
		}
		fmt.Fprintln(&out)
	}
	_, err := fmt.Fprintln(w, out.String()+legend)
	return err
}

// Save writes summary.json, summary.md and summary.txt into a folder, each atomically. Several
// processes may save there at once.
func (r *Report) Save(dir string) error {
	var figures, text, markdown bytes.Buffer
	err := errors.Join(jsontext.Write(&figures, r), r.WriteText(&text), r.WriteMarkdown(&markdown),
		os.MkdirAll(dir, 0o755))
	for ending, b := range map[string]*bytes.Buffer{"json": &figures, "txt": &text, "md": &markdown} {
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, "summary."+ending), b.Bytes())
		}
	}
	if err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}
