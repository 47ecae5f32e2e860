package main

import (
	"maps"
)

func init() {
	maps.Copy(clusterGoldens, map[string]golden{
		"tally":            {args: words("tally -n foo")},
		"tally-wide":       {args: words("tally -n foo -o wide")},
		"tally-everywhere": {args: words("tally -A --no-headers")},
		"tally-one":        {args: words("tally prow-builds -n foo -o json")},
		"tally-names":      {args: words("tally -n foo -o name")},
		"tally-none":       {args: words("tally -n ops")},
		"tally-missing":    {args: words("tally weekly -n foo"), code: 2},
		"tally-one-of-all": {args: words("tally prow-builds -A"), code: 2},
		"explain-tallied":  {args: words("explain pod/build-1 -n foo")},
		"tally-forbidden":  {args: words("tally -n foo"), scene: scene{notMine: []string{"list podtallies"}}, code: 2},
	})
}
