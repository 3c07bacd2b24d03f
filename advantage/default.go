package advantage

// Default returns an estimator of this package with the hyperparameters of DefaultParams, which are also
// those of configurations: Default[BiLevel](). Change its fields afterwards. Other types are zero.
func Default[E Estimator]() (other E) {
	for i := range specs {
		if est, ok := specs[i].New(DefaultParams()).(E); ok {
			return est
		}
	}
	return other
}
