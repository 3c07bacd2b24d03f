package train

// TrainerKeys are the keys that a Trainer implements itself.
func TrainerKeys() []string { return trainerKeys }
