package view

// MaxReportMoved is the limit of a report's numbers for moved parameters.
var MaxReportMoved = &maxReportMoved
