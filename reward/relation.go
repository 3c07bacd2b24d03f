package reward

// Relation says where an object is as seen from the player.
type Relation struct {
	Object     string `json:"object_id"`           // target, hole, box
	Vertical   string `json:"vertical_relation"`   // above, below or same; "" when not stated
	Horizontal string `json:"horizontal_relation"` // left, right or same; "" when not stated
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

// Claim is something that the model said about the state of the environment,
// with the truth to hold it against: the observation with the state before the
// turn, the prediction with the state after it.
type Claim struct {
	Section string     // SectionObservation or SectionPrediction
	Text    string     // what the model wrote
	Truth   []Relation // of every object, in the environment's order
	Env     string     // name of the environment
	Weight  float64    // reward of a perfect claim
}
