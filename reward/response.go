package reward

// Response is one parsed response of the model.
type Response struct {
	Raw           string            // the text that was parsed; the legacy dialect removes image marks first
	FormatCorrect bool              // the text has the form that its format requires
	Sections      map[string]string // contents by section: think, observation, reasoning, prediction, answer
	Actions       []string          // in order, at most as many as the parser allows
	Dropped       int               // number of further actions in the answer
	BoxedAnswer   bool              // the answer came from the model's own answer box
}

// The names of the sections. An action block is called SectionAnswer whatever
// its tag, and a perception block SectionObservation.
const (
	SectionThink       = "think"
	SectionObservation = "observation"
	SectionReasoning   = "reasoning"
	SectionPrediction  = "prediction"
	SectionAnswer      = "answer"
	SectionNative      = "native_thinking" // what a reasoning model wrote before the response proper
)
