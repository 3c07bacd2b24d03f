package reward

import (
	"encoding/json"
	"fmt"

	"vagen/reward/internal/answer"
)

// Relation is the position of an object relative to the player.
type Relation struct {
	Object     string `json:"object_id"`           // target, hole, box
	Vertical   string `json:"vertical_relation"`   // above, below or same; "" when not stated
	Horizontal string `json:"horizontal_relation"` // left, right or same; "" when not stated

	bare bool // neither direction was mentioned
}

// UnmarshalJSON reads a relation leniently, because judges write them in several
// ways: fields that are missing, null or not strings are unstated.
func (r *Relation) UnmarshalJSON(data []byte) error {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("reward: relation: %w", err)
	}
	*r = relationOf(object)
	return nil
}

func relationOf(object map[string]any) Relation {
	text := func(field string) string {
		s, _ := object[field].(string)
		return s
	}
	_, vertical := object["vertical_relation"]
	_, horizontal := object["horizontal_relation"]
	return Relation{Object: text("object_id"), Vertical: text("vertical_relation"),
		Horizontal: text("horizontal_relation"),
		bare:       !vertical && !horizontal}
}

// The values of a Relation's two directions.
const (
	Above = "above"
	Below = "below"
	Left  = "left"
	Right = "right"
	Same  = "same"
)

// Relate returns the relation of an object that is rows below and cols to the
// right of the player; negative numbers mean above and to the left.
func Relate(object string, rows, cols int) Relation {
	r := Relation{Object: object, Vertical: Same, Horizontal: Same}
	switch {
	case rows < 0:
		r.Vertical = Above
	case rows > 0:
		r.Vertical = Below
	}
	switch {
	case cols < 0:
		r.Horizontal = Left
	case cols > 0:
		r.Horizontal = Right
	}
	return r
}

// Claim is a statement of the model about the state of the environment, with the
// truth to compare it with: for an observation the state before the turn, for a
// prediction the state after it.
type Claim struct {
	Section string     // SectionObservation or SectionPrediction
	Text    string     // what the model wrote
	Truth   []Relation // of every object, in the environment's order; nil if the state has no directions
	State   string     // the state in words or JSON, for language models; "" if Truth describes it fully
	Env     string     // name of the environment
	Weight  float64    // reward of a perfect claim

	Unchanged bool // the turn left the state as it was

	// Earlier and EarlierState are Truth and State of one turn earlier: for an observation
	// of the state before the previous turn, for a prediction of the state before this one.
	// Both are empty if there was no such state, or it is not known.
	Earlier      []Relation
	EarlierState string
}

// HasEarlier reports whether the truth of one turn earlier is known.
func (c *Claim) HasEarlier() bool { return len(c.Earlier) > 0 || c.EarlierState != "" }

// Sentence returns a relation in words, with the names of the object and of its
// reference.
func (r Relation) Sentence(object, to string) string {
	switch {
	case r.Vertical == Same && r.Horizontal == Same:
		return object + " is at the same place as " + to
	case r.Vertical == Same:
		return object + " is at the same row and to the " + r.Horizontal + " of " + to
	case r.Horizontal == Same:
		return object + " is " + r.Vertical + " and at the same column as " + to
	}
	return object + " is " + r.Vertical + " and on the " + r.Horizontal + " side of " + to
}

// ExtractRelations finds a list of relations in a judge's answer: in the code blocks marked as JSON that follow the
// words "Output JSON:", else the first pair of balanced brackets that holds a list of objects. It reports whether
// there is one; an answer longer than 64 KiB is cut first.
func ExtractRelations(text string) ([]Relation, bool) { return relationsOf(answer.List(text)) }

// OuterRelations reads a judge's answer as VAGEN next does: the text from the first opening to the last closing
// bracket must be one JSON list, whose objects are returned.
func OuterRelations(text string) ([]Relation, bool) { return relationsOf(answer.Outer(text)) }

// relationsOf reads the objects of a list, if there is one, as relations.
func relationsOf(list []map[string]any, ok bool) ([]Relation, bool) {
	if !ok {
		return nil, false
	}
	relations := make([]Relation, len(list))
	for i, object := range list {
		relations[i] = relationOf(object)
	}
	return relations, true
}
