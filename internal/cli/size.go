package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// parseSize reads a number of bytes: 1048576, 1024KiB, 1MiB, 1GiB. K, M and G mean the same.
func parseSize(s string) (int64, error) {
	number, shift := s, 0
	for i, unit := range []string{"K", "M", "G"} {
		for _, suffix := range []string{unit, unit + "i", unit + "iB"} {
			if rest, ok := strings.CutSuffix(s, suffix); ok {
				number, shift = rest, 10*(i+1)
			}
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > 1<<(62-shift) {
		return 0, fmt.Errorf("%q is no size: give a number of bytes such as 1048576, or 64MiB", s)
	}
	return n << shift, nil
}
