package navigation

// viewState returns the current state, the zero value before the first Reset.
func (e *Env) viewState() viewState {
	if e.scene == nil {
		return viewState{}
	}
	return e.state(e.agent)
}
