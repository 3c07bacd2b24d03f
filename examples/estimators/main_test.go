package main

func Example() {
	main()
	// Output:
	// token of                 prompt   prompt response response response observat observat observat response response
	// gae                       0.668    0.742    0.491    0.546    0.495   -1.339    2.957   -0.048    0.280    0.200
	// masked_gae                0.000    0.000    0.618    0.687    0.652    0.000    0.000    0.000    0.280    0.200
	// bi_level_gae, γH 0.5      0.000    0.000    0.244    0.271    0.190    0.000    0.000    0.000    0.280    0.200
	// turn_wise_gae, γH 0.5     0.000    0.000    0.190    0.190    0.190    0.000    0.000    0.000    0.200    0.200
	//
	// Plain GAE takes observation tokens for actions, and the junk in their values spreads.
	// The masked recursion steps over them. The bi-level one hands the second turn's credit
	// to the first as a whole, discounted once; the turn-wise one gives a turn's tokens one number.
}
