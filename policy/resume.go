package policy

// Recorded is a conversation as it was recorded: token in, token out.
type Recorded struct {
	Conversation uint64  // as in Prompt
	Tokens       []int32 // read and written so far, image placeholders included
	Images       []Image // of Tokens, in order
}

// Resumer is a policy that can continue recorded conversations.
type Resumer interface {
	// Resume opens conversations with recorded tokens. Nothing is generated: the first
	// prompt with the key continues them, and Generate reads the tokens before the
	// prompt's messages. They are not part of the completion's Context. If that prompt
	// has no messages, the response follows the recorded tokens directly. Resuming the
	// same key again before that prompt replaces the tokens; the key of a conversation
	// that has been generated for is an error. Forget frees them. After an error no
	// conversation is resumed.
	Resume(conversations ...Recorded) error
}
