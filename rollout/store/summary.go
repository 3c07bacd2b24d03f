package store

import (
	"fmt"

	"vagen/rollout"
)

// Summary identifies an episode and has its results, without texts and tokens.
type Summary struct {
	Step    int         `json:"step"`
	Env     string      `json:"env"`
	Seed    int64       `json:"seed"`
	Group   int         `json:"group"`
	Index   int         `json:"index"`
	End     rollout.End `json:"end"`
	Error   string      `json:"error"` // why the episode is unusable
	Success bool        `json:"success"`
	Reward  float64     `json:"reward"` // the sum of all rewards
	Turns   int         `json:"turns"`
	Tokens  int         `json:"tokens"` // of all conversations
}

// summaryRecord are the columns of Summary. Others are not read.
type summaryRecord struct {
	Step    int64  `parquet:"step"`
	Env     string `parquet:"env,dict"`
	Seed    int64  `parquet:"seed"`
	Group   int64  `parquet:"group"`
	Index   int64  `parquet:"index"`
	End     string `parquet:"end,dict"`
	Error   string `parquet:"error"`
	Success bool   `parquet:"success"`
	Turns   []struct {
		Reward []struct {
			Value float64 `parquet:"value"`
		} `parquet:"reward,list"`
	} `parquet:"turns,list"`
	Rows []struct {
		Pieces []struct {
			Length int64 `parquet:"length"`
		} `parquet:"pieces,list"`
	} `parquet:"rows,list"`
}

// Summaries reads the summaries of all trajectories, in order. It reads no image, and
// only the columns that it needs.
func (r *Reader) Summaries() ([]Summary, error) {
	out := make([]Summary, 0, min(r.Len(), 1<<12)) // the footer may claim any number
	for one, err := range each[summaryRecord](r.table, r.most) {
		if err != nil {
			return out, fmt.Errorf("store: %s: %w", r.path, err)
		}
		s := Summary{
			Step: int(one.Step), Env: one.Env, Seed: one.Seed, Group: int(one.Group), Index: int(one.Index),
			End: rollout.End(one.End), Error: one.Error, Success: one.Success, Turns: len(one.Turns),
		}
		for _, t := range one.Turns {
			var turn float64 // as Trajectory.Return adds
			for _, part := range t.Reward {
				turn += part.Value
			}
			s.Reward += turn
		}
		for _, row := range one.Rows {
			for _, p := range row.Pieces {
				s.Tokens += int(p.Length)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// Texts are what an episode's agent was shown and what it wrote, turn by turn.
type Texts struct{ Observations, Responses []string }

type textsRecord struct {
	Turns []struct {
		Observation string `parquet:"observation"`
		Response    string `parquet:"response"`
	} `parquet:"turns,list"`
}

// Texts reads the texts of all trajectories, in order, and no other columns.
func (r *Reader) Texts() ([]Texts, error) {
	out := make([]Texts, 0, min(r.Len(), 1<<12))
	for one, err := range each[textsRecord](r.table, r.most) {
		if err != nil {
			return out, fmt.Errorf("store: %s: %w", r.path, err)
		}
		var t Texts
		for _, turn := range one.Turns {
			t.Observations, t.Responses = append(t.Observations, turn.Observation), append(t.Responses, turn.Response)
		}
		out = append(out, t)
	}
	return out, nil
}
