package reward

// Response is what a parser understood of one response of the model.
type Response struct {
	Raw           string            // the text that was parsed
	FormatCorrect bool              // the text had the shape its format asks for
	Sections      map[string]string // contents by section: think, observation, reasoning, prediction, answer
	Actions       []string          // in order, at most as many as the environment allows
}
