package train

// TrainerKeys are the keys that a Trainer honours itself.
func TrainerKeys() []string { return trainerKeys }
