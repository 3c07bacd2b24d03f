package credit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"vagen/internal/floats"
	"vagen/internal/regular"
	"vagen/rollout/store"
)

// Folder is the folder of measurements in a run's folder.
const Folder = "credit"

// ErrFile means that a file below Folder is damaged, or not one of this package.
var ErrFile = errors.New("not a file of measurements")

// maxFile limits the size of files that are read.
const maxFile = 64 << 20

// Number is a figure that may be unknown: NaN is null in JSON.
type Number float64

var (
	_ json.Marshaler   = Number(0)
	_ json.Unmarshaler = (*Number)(nil)
)

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !floats.Finite(x) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(raw, (*float64)(n))
}

// Key identifies an episode of a run.
type Key struct {
	Step  int `json:"step"` // training step that plays the episode
	Group int `json:"group"`
	Index int `json:"index"`
}

// String returns the key as the viewer writes it, such as "train/41/0-3".
func (k Key) String() string { return fmt.Sprintf("train/%d/%d-%d", k.Step, k.Group, k.Index) }

// Measured is the result of measuring an episode.
type Measured struct {
	Key
	// Episode is the EpisodeSum of the episode. A rollback or a resume replaces the episodes of a
	// step, but not the results of measuring them.
	Episode string `json:"episode"`
	Env     string `json:"env"`
	Seed    int64  `json:"seed"`
	Success bool   `json:"success"`
	// Length is the number of turns of the episode. Turns are those that were measured.
	Length int            `json:"length"`
	Turns  []MeasuredTurn `json:"turns"`
	// Mistake is the turn with the largest regret that is certainly above 0; nil for none.
	Mistake *int `json:"mistake"`
	// LeftOut are turns that could not be measured.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// LeftOut is a turn that could not be measured.
type LeftOut struct {
	Turn int    `json:"turn"`
	Why  string `json:"why"`
}

// MeasuredTurn is what was measured of one turn. Intervals have 95 % confidence.
type MeasuredTurn struct {
	Turn      int      `json:"turn"`
	Actions   []string `json:"actions"`   // parsed from the response
	Q         Number   `json:"q"`         // mean return after the response that was given
	V         Number   `json:"v"`         // mean return after a response that is drawn anew
	Advantage Number   `json:"advantage"` // Q − V
	Low       Number   `json:"low"`       // interval of Advantage
	High      Number   `json:"high"`
	N         int      `json:"n"`       // continuations of each side
	Decided   bool     `json:"decided"` // the interval does not include 0
	// Regret is what the best of the alternatives is worth above the response that was
	// given, 0 if none is better. It is unknown without alternatives. Significant means
	// that its interval, corrected for the number of alternatives, is above 0.
	Regret       Number            `json:"regret"`
	Significant  bool              `json:"significant"`
	Alternatives []Alternative     `json:"alternatives"`
	Claims       map[string]Number `json:"claims"` // of estimators, by name
}

// Alternative is another action that the policy could have chosen in a turn.
type Alternative struct {
	Actions []string `json:"actions"`
	Share   Number   `json:"share"` // of the policy's fresh draws with these actions
	Q       Number   `json:"q"`
	Low     Number   `json:"low"` // interval of Q
	High    Number   `json:"high"`
}

// EpisodeSum returns the SHA-256 of an episode's texts. Episodes of one step, group and index that
// different policies played have different ones, unless they are equal word by word.
func EpisodeSum(t store.Texts) string {
	raw, _ := json.Marshal(t) // never fails for texts
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// Path returns the file of an episode's result in a run's folder.
func Path(run string, k Key) string {
	return filepath.Join(run, Folder, "train", strconv.Itoa(k.Step), fmt.Sprintf("%d-%d.json", k.Group, k.Index))
}

// LoadMeasured reads an episode's result from a run's folder. The error wraps
// fs.ErrNotExist if the episode was not measured, and ErrFile if the file is damaged.
func LoadMeasured(run string, k Key) (*Measured, error) {
	m := new(Measured)
	path := Path(run, k)
	if err := readJSON(path, m); err != nil {
		return nil, err
	}
	if err := m.check(k); err != nil {
		return nil, fmt.Errorf("credit: %s: %w: %w", path, ErrFile, err)
	}
	return m, nil
}

// check refuses what no measurement writes.
func (m *Measured) check(k Key) error {
	if m.Key != k {
		return fmt.Errorf("it is of episode %v, must be of %v", m.Key, k)
	}
	last := -1
	for i := range m.Turns {
		t := m.Turns[i].Turn
		if t <= last || t >= m.Length {
			return fmt.Errorf("turns[%d] is turn %d, must be in [%d, %d)", i, t, last+1, m.Length)
		}
		last = t
	}
	if m.Mistake != nil && (*m.Mistake < 0 || *m.Mistake >= m.Length) {
		return fmt.Errorf("mistake is turn %d, must be in [0, %d)", *m.Mistake, m.Length)
	}
	return nil
}

// readJSON reads a whole JSON file of limited size.
func readJSON(path string, into any) error {
	raw, err := regular.ReadAtMost(path, maxFile, ErrFile)
	if errors.Is(err, regular.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrFile, err)
	}
	if err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("credit: %s: %w: %w", path, ErrFile, err)
	}
	return nil
}
