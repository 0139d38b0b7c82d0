"""The EvoRL agent: MDP rules, environments, actor, critic, evaluator, evolution of actions."""
