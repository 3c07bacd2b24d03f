package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"vagen/internal/regular"
)

// FileName is the name of the chained file in a run's folder.
const FileName = "proof.jsonl"

// Kinds of lines besides those of package track's events.
const (
	KindStart  = "start"  // a new run
	KindResume = "resume" // the run was resumed after Step; later lines before it are undone
	KindInputs = "inputs" // files that the run reads: model, plugin
	KindFile   = "file"   // a file with episodes or scores of Step was written
	KindEnd    = "end"    // all steps were done, or early stopping ended the run
)

// ErrChain is wrapped by errors about a chained file that is damaged.
var ErrChain = errors.New("the chain is damaged")

// Line is a line of the chained file.
type Line struct {
	Kind string `json:"kind"`
	Step int    `json:"step"` // of the event; for start and resume the steps done before
	// Rollbacks is the number of rollbacks before the line. Steps are equal after a resume
	// only if they have the same number, because a rollback changes the random draws.
	Rollbacks int `json:"rollbacks,omitempty"`

	Facts      *Facts   `json:"facts,omitempty"`      // of start and resume
	Changed    []string `json:"changed,omitempty"`    // settings that a resume changed, as "key: old → new"
	Checkpoint string   `json:"checkpoint,omitempty"` // SHA-256 of the manifest that was written, or resumed from
	// SHA-256 of an event's line in metrics.jsonl without metrics of the machine
	Metrics string `json:"metrics,omitempty"`
	// Files has the SHA-256 of files: relative to the run's folder with slashes if they are in
	// it, else absolute; of inputs by their use, such as model/config.json.
	Files map[string]string `json:"files,omitempty"`
	// Paths are those of inputs by their use which the configuration does not name, named like
	// files.
	Paths map[string]string `json:"paths,omitempty"`
	// Kept is the number of events in metrics.jsonl when a session began: those before the
	// checkpoint that it started from.
	Kept int `json:"kept,omitempty"`

	Previous string `json:"previous"` // hash of the line before; empty in the first
	// Hash is the SHA-256 of the line without this field. It is written last.
	Hash string `json:"-"`
}

// hashed is the end of a line, with its hash.
const (
	hashKey   = `,"hash":"`
	hashedEnd = len(hashKey) + 2*sha256.Size + len(`"}`)
)

// encode returns the line with its hash, without the line end.
func (l *Line) encode() ([]byte, error) {
	body, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	l.Hash = sum(body)
	return append(body[:len(body)-1], hashKey+l.Hash+`"}`...), nil
}

// decode reads a line and checks its hash. Unknown fields of later versions are hashed, and
// otherwise ignored.
func decode(raw []byte) (Line, error) {
	var l Line
	at := len(raw) - hashedEnd
	if at < 1 || !bytes.HasPrefix(raw[at:], []byte(hashKey)) || !bytes.HasSuffix(raw, []byte(`"}`)) {
		return l, fmt.Errorf(`%w: it does not end with %s…"}`, ErrChain, hashKey)
	}
	body := append(bytes.Clone(raw[:at]), '}')
	l.Hash = string(raw[at+len(hashKey) : len(raw)-len(`"}`)])
	if is := sum(body); is != l.Hash {
		return l, fmt.Errorf("%w: its SHA-256 is %s, but the line records %s", ErrChain, short(is), short(l.Hash))
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return l, fmt.Errorf("%w: %w", ErrChain, err)
	}
	return l, nil
}

// resumed describes a resume.
func (l *Line) resumed() string {
	text := fmt.Sprintf("resumed after step %d", l.Step)
	if len(l.Changed) > 0 {
		text += " with changed settings: " + strings.Join(l.Changed, "; ")
	}
	return text
}

// Chain is the content of a chained file.
type Chain struct {
	Lines []Line // those that are valid and follow one another
	// Torn is true if the last line is incomplete: the process stopped while writing it.
	Torn bool
	// Damage lists what is wrong, with line numbers. Lines after damage are still read.
	Damage []error
}

// Head returns the hash of the last line, which stands for the whole chain.
func (c *Chain) Head() string {
	if len(c.Lines) == 0 {
		return ""
	}
	return c.Lines[len(c.Lines)-1].Hash
}

// Read reads the chain of a run's folder. If there is none, the error wraps fs.ErrNotExist.
// A damaged chain is not an error, see Chain.Damage.
func Read(dir string) (*Chain, error) {
	raw, err := regular.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return Parse(raw), nil
}

// Parse is Read of a file's content.
func Parse(raw []byte) *Chain {
	c, previous := &Chain{}, ""
	for number := 1; len(raw) > 0; number++ {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		raw = rest
		if !whole {
			c.Torn = true
			break
		}
		l, err := decode(line)
		if err != nil {
			c.Damage = append(c.Damage, fmt.Errorf("line %d: %w", number, err))
			previous = chained(line)
			continue
		}
		if l.Previous != previous {
			c.Damage = append(c.Damage, fmt.Errorf("line %d: %w: it follows a line with hash %s, but the line before has %s",
				number, ErrChain, short(l.Previous), short(previous)))
		}
		previous = l.Hash
		c.Lines = append(c.Lines, l)
	}
	return c
}

// chained is the hash by which the next line refers to a line, damaged or not.
func chained(line []byte) string {
	l, err := decode(line)
	if err != nil {
		return sum(line)
	}
	return l.Hash
}

func sum(raw []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// short abbreviates a hash for messages.
func short(hash string) string {
	if hash == "" {
		return "(none)"
	}
	return hash[:min(len(hash), 12)]
}
