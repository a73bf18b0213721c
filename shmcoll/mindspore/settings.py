"""The names of MindSpore's settings, with the values that they have before a program sets them.

MindSpore 2.10 computes some of them from the machine: `device_target` (the one that it is built for) and
`runtime_num_threads`. None means that the environment has the value.
"""

from typing import Any

STAND_ALONE = "stand_alone"

_BY_NAME: dict[str, Any] = {
    "mode": 1, "device_target": "Ascend", "device_id": 0, "aoe_config": {}, "aoe_job_type": "2", "aoe_tune_mode": "",
    "ascend_config": {}, "bias_add_comm_swap": False, "check_bprop": False, "compile_cache_path": "",
    "compute_communicate_fusion_level": 0, "conv_allow_tf32": True, "conv_dgrad_algo": "normal",
    "conv_fprop_algo": "normal", "conv_wgrad_algo": "normal", "cur_step_num": 0, "dataset_broadcast_opt_level": 0,
    "debug_level": 0, "deterministic": "OFF", "disable_format_transform": False,
    "enable_allreduce_slice_to_reducescatter": False, "enable_begin_end_inline_opt": False,
    "enable_compile_cache": None,
    "enable_concat_eliminate_opt": False, "enable_debug_runtime": False, "enable_flash_attention_load_balance": False,
    "enable_fused_cast_add_opt": False, "enable_grad_comm_opt": False, "enable_graph_kernel": False,
    "enable_interleave_parallel_branch": False, "enable_interleave_split_concat_branch": False,
    "enable_offloading_packed_experts": True, "enable_opt_shard_comm_opt": False, "enable_parallel_split": False,
    "enable_profiling": False, "enable_reduce_precision": True, "enable_task_opt": False, "env_config_path": "",
    "exec_order": "bfs", "gpu_config": {}, "graph_kernel_flags": "", "hccl_watchdog": True, "infer_boost": "off",
    "inter_op_parallel_num": 0, "interleaved_layernorm_comm": False, "interleaved_matmul_comm": False,
    "jit_config": {}, "jit_level": "", "jit_syntax_level": 2, "last_triggered_step": 0, "matmul_allow_tf32": False,
    "matmul_grad_comm_overlap": "", "max_call_depth": 1000, "max_device_memory": 1024.0, "memory_optimize_level": 0,
    "mempool_block_size": 1.0, "need_ckpt": False, "op_timeout": 900, "pp_1f1b_overlap": "", "print_file_path": "",
    "profiling_options": "training_trace", "pynative_synchronize": False, "recompute_allgather_overlap_fagrad": False,
    "recompute_comm_overlap": "", "reserve_class_name_in_scope": True, "runtime_num_threads": 2,
    "save_checkpoint_steps": 0, "save_graphs": 0, "save_graphs_path": ".", "support_binary": False, "topo_order": "",
    "variable_memory_max_size": "0",
}  # fmt: skip
#: parts of `ascend_config`: they can be read by name, and not set
IN_ASCEND_CONFIG: dict[str, Any] = dict.fromkeys(
    ("atomic_clean_policy", "conv_allow_hf32", "ge_options", "host_scheduling_max_threshold", "jit_compile",
     "matmul_allow_hf32", "op_debug_option", "op_precision_mode", "precision_mode"), ""
)  # fmt: skip
#: names of former versions, which are taken and forgotten
FORMER = ("auto_tune_mode", "enable_auto_mixed_precision", "enable_sparse")
OF_CONTEXT = _BY_NAME | IN_ASCEND_CONFIG

_fusions = {kind: {"mode": "auto", "config": None} for kind in ("allreduce", "allgather", "reducescatter")}
OF_PARALLEL: dict[str, Any] = {
    "all_reduce_fusion_config": [], "auto_parallel_new_interface": False,
    "auto_parallel_search_mode": "recursive_programming", "auto_pipeline": False,
    "comm_fusion": {"openstate": True, **_fusions}, "communi_parallel_mode": "all_group_parallel",
    "dataset_strategy": "data_parallel", "device_num": None, "dump_device_local_norm": False,
    "dump_local_norm": False, "dump_local_norm_path": "", "enable_alltoall": False, "enable_parallel_optimizer": False,
    "force_fp32_communication": False, "full_batch": False, "full_batch_is_set": False, "global_rank": None,
    "grad_accumulation_step": 1, "gradient_fp32_sync": True, "gradients_mean": False, "group_ckpt_save_file": "",
    "init_param_in_compile": True, "loss_repeated_mean": True, "optimizer_weight_shard_aggregated_save": False,
    "optimizer_weight_shard_size": -1, "parallel_mode": STAND_ALONE, "parallel_optimizer_config": {},
    "parameter_broadcast": False, "pipeline_config": {}, "pipeline_interleave": False,
    "pipeline_result_broadcast": False, "pipeline_scheduler": "1f1b", "pipeline_segments": 1, "pipeline_stages": 1,
    "search_mode": "recursive_programming", "sharding_propagation": False,
    "strategy_ckpt_config": {"load_file": "", "save_file": "", "only_trainable_params": True},
    "strategy_ckpt_load_file": "", "strategy_ckpt_save_file": "",
}  # fmt: skip
ONLY_READ = ("full_batch_is_set", "pipeline_interleave", "pipeline_scheduler")
ONLY_SET = ("client_password", "group_ckpt_save_file", "parallel_optimizer_config", "pipeline_config",
            "pipeline_segments", "server_password")  # fmt: skip

OF_SERVERS: dict[str, Any] = {
    "client_password": "", "config_file_path": "", "enable_ps": False, "enable_ssl": False, "ms_role": "MS_NOT_PS",
    "scheduler_ip": "127.0.0.1", "scheduler_port": 6667, "server_mode": "", "server_num": 0, "server_password": "",
    "worker_num": 0,
}  # fmt: skip
