module vagen

go 1.26
