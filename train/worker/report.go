package worker

import (
	"encoding/json"
	"fmt"

	"vagen/reward/judge/client"
	"vagen/train/queue"
)

// report is what a worker reports of an episode beside its trajectory.
type report struct {
	Judge client.Usage `json:"judge"`
}

// write returns the report for queue.Opened.Observe, nothing if it is empty.
func (r report) write() []byte {
	if r.Judge.Claims == 0 {
		return nil
	}
	raw, _ := json.Marshal(&r) // of numbers and of names of causes, which cannot fail
	return raw
}

// readReport reads what a worker sent. Errors wrap queue.ErrResult.
func readReport(raw []byte) (r report, err error) {
	if len(raw) == 0 {
		return r, nil
	}
	if err = json.Unmarshal(raw, &r); err == nil {
		err = r.Judge.Check()
	}
	if err != nil {
		return report{}, fmt.Errorf("worker: %w: its report: %w", queue.ErrResult, err)
	}
	return r, nil
}
