package instance

import (
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Condition is what a request asks of the instance before it changes it: an error if it does
// not hold. now is nil if there is no instance.
type Condition = func(now *api.Instance) error

// checkConditions checks conditions against the instance as people see it. It returns the
// instance's record, nil for no instance. As long as the record stays the same, the conditions
// hold.
func (s *Service) checkConditions(t *tx.Tx, found bool, conditions []Condition) (stored *api.Instance, err error) {
	if len(conditions) == 0 {
		return nil, nil
	}
	stored, d, err := s.storedIf(t, found)
	if err != nil {
		return nil, err
	}
	var now *api.Instance
	if stored != nil {
		shown := *stored
		s.Observer.Show(d, &shown)
		now = &shown
	}
	for _, condition := range conditions {
		if err := condition(now); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// storedIf returns the instance's record and what is desired if the instance was found, else nil.
func (s *Service) storedIf(t *tx.Tx, found bool) (*api.Instance, store.Desired, error) {
	if !found {
		return nil, store.Desired{}, nil
	}
	stored, d, err := s.stored(t)
	return &stored, d, err
}
